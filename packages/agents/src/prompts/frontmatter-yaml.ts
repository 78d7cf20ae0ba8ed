/** Splits an agent's file into frontmatter and template, and records the position of each value. */
import { isMap, isNode, isScalar, LineCounter, parseDocument } from "yaml";
import type { Document, Node } from "yaml";
import { MAX_YAML_NESTING, tooDeepAt } from "../yaml-nesting.ts";
import { PromptError } from "./prompt-error.ts";
import type { Place } from "./prompt-error.ts";

/** People write these files by hand; a larger file was not meant to be an agent. */
export const MAX_PROMPT_BYTES = 1024 * 1024;

export interface Frontmatter {
  readonly value: Readonly<Record<string, unknown>>;
  readonly template: string;
  /** The position of a value, or of the innermost value that encloses a missing one. */
  readonly placeOf: (path: readonly PropertyKey[], which?: "value" | "name") => Place;
}

const START: Place = { line: 1, column: 1 };
const FENCE = /^---[ \t]*$/;

/** Throws PromptError if there is no valid frontmatter: such a file must never become a prompt. */
export function readFrontmatter(file: string, source: string): Frontmatter {
  if (Buffer.byteLength(source) > MAX_PROMPT_BYTES)
    throw new PromptError(
      file,
      START,
      `the file is larger than the ${MAX_PROMPT_BYTES} bytes that are allowed`,
    );
  const lines = source.replace(/^\uFEFF/, "").split(/\r\n|\n|\r/);
  if (!FENCE.test(lines[0] ?? ""))
    throw new PromptError(
      file,
      START,
      "an agent's file starts with frontmatter: a line `---`, YAML with at least `model`, and a line `---`",
    );
  const end = lines.findIndex((line, index) => index > 0 && FENCE.test(line));
  if (end === -1)
    throw new PromptError(file, START, "the frontmatter has no end: close it with a line `---`");
  const yaml = lines.slice(1, end).join("\n");
  const template = lines.slice(end + 1).join("\n");
  return { ...parseYaml(file, yaml), template: template.trim() };
}

function parseYaml(file: string, yaml: string): Omit<Frontmatter, "template"> {
  const tooDeep = tooDeepAt(yaml);
  if (tooDeep !== undefined)
    throw new PromptError(
      file,
      { ...tooDeep, line: tooDeep.line + 1 },
      `bad YAML: nested more than ${MAX_YAML_NESTING} levels deep`,
    );
  const counter = new LineCounter();
  const document = parseDocument(yaml, { lineCounter: counter, prettyErrors: false });
  const placeAt = (offset: number): Place => {
    const { line, col } = counter.linePos(offset);
    // The first line of the file is the fence.
    return { line: line + 1, column: col };
  };
  for (const { message, pos } of [...document.errors, ...document.warnings])
    throw new PromptError(file, placeAt(pos[0]), `bad YAML: ${message.split("\n", 1)[0] ?? ""}`);
  const value = valueOf(file, document);
  const placeOf = (path: readonly PropertyKey[], which: "value" | "name" = "value"): Place =>
    placeAt(nearestNode(document, path, which)?.range?.[0] ?? 0);
  return { value, placeOf };
}

/**
 * SECURITY: aliases can expand a few lines of YAML until memory is full; the parser refuses to
 * expand more than a hundred of them. Guarded by parse-prompt.test.ts.
 */
function valueOf(file: string, document: Document.Parsed): Readonly<Record<string, unknown>> {
  let value: unknown;
  try {
    value = document.toJS({ maxAliasCount: 100 });
  } catch (error) {
    throw new PromptError(file, { line: 2, column: 1 }, `bad YAML: ${(error as Error).message}`);
  }
  if (typeof value !== "object" || value === null || Array.isArray(value))
    throw new PromptError(
      file,
      { line: 2, column: 1 },
      "the frontmatter must be a mapping such as `model: openai/gpt-4o`",
    );
  return value as Readonly<Record<string, unknown>>;
}

function nearestNode(
  document: Document.Parsed,
  path: readonly PropertyKey[],
  which: "value" | "name",
): Node | undefined {
  const [above, name] = [path.slice(0, -1), path.at(-1)];
  if (name === undefined) return document.contents ?? undefined;
  const around = document.getIn(above, true);
  if (which === "name" && isMap<Node>(around)) {
    const pair = around.items.find(({ key }) => isScalar(key) && key.value === name);
    if (pair !== undefined) return pair.key;
  }
  const node = document.getIn(path, true);
  return isNode(node) ? node : nearestNode(document, above, "name");
}
