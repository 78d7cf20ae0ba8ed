/**
 * Decides which images may be used.
 *
 * An entry is a shortcut, an exact reference, or a pattern in which `*` matches any run of
 * characters without `/`, and `**` any run at all. It is matched against the whole canonical
 * reference: `python:*` allows `python:3.12`, but neither `x/python:3.12` nor
 * `python@sha256:…`. An empty list allows everything.
 */
import { HOST_REFERENCE, parseReference } from "./reference.ts";

const DEFAULT_REGISTRY_PREFIX = /^(?:index\.)?docker\.io\/(?:library\/)?/;

export class ImageAllowlist {
  readonly entries: readonly string[];
  readonly #patterns: readonly RegExp[];

  /** Rejects with INVALID_IMAGE if an entry without `*` is not a reference. */
  constructor(entries: readonly string[]) {
    this.entries = [...entries];
    this.#patterns = entries.map(compileEntry);
  }

  /** Whether this canonical reference may be used. */
  allows(canonical: string): boolean {
    return this.#patterns.length === 0 || this.#patterns.some((pattern) => pattern.test(canonical));
  }

  describe(): string {
    return this.entries.join(", ");
  }
}

function compileEntry(entry: string): RegExp {
  if (!entry.includes("*")) {
    const canonical = entry === HOST_REFERENCE ? entry : parseReference(entry).canonical;
    return new RegExp(`^${escape(canonical)}$`);
  }
  const source = entry
    .replace(DEFAULT_REGISTRY_PREFIX, "")
    .split(/(\*+)/)
    .map((part) => (part.startsWith("*") ? (part.length > 1 ? ".*" : "[^/]*") : escape(part)))
    .join("");
  return new RegExp(`^${source}$`);
}

function escape(text: string): string {
  return text.replace(/[.*+?^${}()|[\]\\/-]/g, "\\$&");
}
