/** Which images the policy allows, and which content it pins a name to. */
import type { SandboxError } from "@sandkasten/protocol";
import { ImageAllowlist } from "../../../images/allowlist.ts";
import { invalidImage } from "../../../images/image-failure.ts";
import { parseReference } from "../../../images/reference.ts";
import type { ImageReference } from "../../../images/reference.ts";
import type { NamedImage } from "./image-names.ts";

/**
 * The allowlist (see allowlist.ts), in which an entry with a digest also pins: with
 * `python:3.11-slim@sha256:…`, a request for `python:3.11-slim` gets exactly that content.
 */
export class ImageRules {
  readonly #allowlist: ImageAllowlist;
  readonly #pins: readonly ImageReference[];

  constructor(allowedImages: readonly string[]) {
    this.#allowlist = new ImageAllowlist(allowedImages);
    this.#pins = allowedImages
      .filter((entry) => entry.includes("@") && !entry.includes("*"))
      .map(parseReference);
  }

  /** The reference to use for a name, possibly pinned; undefined if it is not allowed. */
  admit(wanted: ImageReference): ImageReference | undefined {
    if (this.#allowlist.allows(wanted.canonical)) return wanted;
    const pin = this.#pins.find(
      ({ repository, tag = "latest", digest }) =>
        repository === wanted.repository &&
        (wanted.digest === undefined ? tag === wanted.tag : digest === wanted.digest),
    );
    return wanted.digest === undefined ? pin : pin && wanted;
  }

  /**
   * Whether our own image may be used for a shortcut: by its name, or because the public one is
   * allowed without a pin.
   */
  admitsOwn({ own, wanted }: NamedImage): boolean {
    return (
      own !== undefined &&
      (this.#allowlist.allows(own.canonical) || this.#allowlist.allows(wanted.canonical))
    );
  }

  /** Whether the policy itself names this content. */
  isPinned({ repository, digest }: ImageReference): boolean {
    return this.#pins.some((pin) => pin.repository === repository && pin.digest === digest);
  }

  refusal(wanted: ImageReference): SandboxError {
    return invalidImage(
      `The image ${wanted.canonical} is not allowed here. Allowed images: ${this.#allowlist.describe()}.`,
      { details: { allowed_images: this.#allowlist.entries } },
    );
  }
}
