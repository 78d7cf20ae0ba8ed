/** Reads YAML into values that know their position in the file. */
import { isAlias, isMap, isScalar, isSeq, LineCounter, parseDocument, Scalar } from "yaml";
import type { Document, Node } from "yaml";
import { MAX_YAML_NESTING, tooDeepAt } from "../../yaml-nesting.ts";
import type { Place } from "./problem.ts";
import { Problems } from "./problem.ts";

export type Located = LocatedScalar | LocatedList | LocatedMap;

export interface LocatedScalar {
  readonly kind: "scalar";
  readonly place: Place;
  readonly value: string | number | boolean | null;
  /** The position of a character of the text; the start of the value if unknown. */
  placeOf(offset: number): Place;
}

export interface LocatedList {
  readonly kind: "list";
  readonly place: Place;
  readonly items: readonly Located[];
}

export interface LocatedMap {
  readonly kind: "map";
  readonly place: Place;
  readonly entries: readonly LocatedEntry[];
}

export interface LocatedEntry {
  readonly name: string;
  /** The position of the name. */
  readonly place: Place;
  readonly value: Located;
}

/** People write workflows by hand; a larger file was not meant to be one. */
export const MAX_FILE_BYTES = 256 * 1024;
/** Also counts what aliases repeat. */
const MAX_VALUES = 50_000;
const MAX_DEPTH = 100;

export interface YamlReading {
  readonly root: Located | undefined;
  readonly problems: Problems;
}

export function readYaml(text: string): YamlReading {
  const problems = new Problems();
  const start: Place = { line: 1, column: 1 };
  if (Buffer.byteLength(text) > MAX_FILE_BYTES) {
    problems.add(start, `the file is larger than the ${MAX_FILE_BYTES} bytes that are allowed`);
    return { root: undefined, problems };
  }
  const tooDeep = tooDeepAt(text);
  if (tooDeep !== undefined) {
    problems.add(tooDeep, `the file is nested more than ${MAX_YAML_NESTING} levels deep`);
    return { root: undefined, problems };
  }
  const lines = new LineCounter();
  const document = parseDocument(text, { lineCounter: lines, prettyErrors: false });
  const placeAt = (offset: number): Place => {
    const { line, col } = lines.linePos(offset);
    return { line, column: col };
  };
  for (const { message, pos } of [...document.errors, ...document.warnings])
    problems.add(placeAt(pos[0]), firstLine(message));
  if (problems.found.length > 0) return { root: undefined, problems };
  if (document.contents === null) {
    problems.add(start, "the file is empty; a workflow has id and steps");
    return { root: undefined, problems };
  }
  const reader = new LocatedReader(document, text, placeAt, problems);
  const root = reader.read(document.contents, 0);
  return { root: problems.found.length > 0 ? undefined : root, problems };
}

class LocatedReader {
  readonly #document: Document.Parsed;
  readonly #text: string;
  readonly #placeAt: (offset: number) => Place;
  readonly #problems: Problems;
  #count = 0;

  constructor(
    document: Document.Parsed,
    text: string,
    placeAt: (offset: number) => Place,
    problems: Problems,
  ) {
    this.#document = document;
    this.#text = text;
    this.#placeAt = placeAt;
    this.#problems = problems;
  }

  /**
   * SECURITY: aliases can make a small file large or endless, so their expansion is counted and its
   * depth is limited. Guarded by compile.test.ts.
   */
  read(node: Node | null, depth: number): Located {
    this.#count += 1;
    const place = this.#placeAt(node?.range?.[0] ?? 0);
    if (this.#count > MAX_VALUES || depth > MAX_DEPTH) {
      const limit =
        depth > MAX_DEPTH
          ? `${MAX_DEPTH} levels that values may be nested`
          : `${MAX_VALUES} values that a file may have`;
      if (this.#problems.found.length === 0)
        this.#problems.add(place, `the file has more than the ${limit}, aliases included`);
      return constant(place, null);
    }
    if (isAlias(node)) {
      const target = node.resolve(this.#document);
      if (target !== undefined) return this.read(target, depth + 1);
      this.#problems.add(place, "the alias names no anchor");
      return constant(place, null);
    }
    if (isMap(node)) {
      const entries = node.items.map(({ key, value }) => {
        const keyNode = key as Node;
        const keyPlace = this.#placeAt(keyNode.range?.[0] ?? 0);
        if (!isScalar(keyNode)) this.#problems.add(keyPlace, "the name of an entry must be text");
        return {
          name: isScalar(keyNode) ? String(keyNode.value) : "",
          place: keyPlace,
          value:
            value === null ? constant(keyPlace, null) : this.read(value as Node | null, depth + 1),
        };
      });
      return { kind: "map", place, entries };
    }
    if (isSeq(node)) {
      const items = node.items.map((item) => this.read(item as Node | null, depth + 1));
      return { kind: "list", place, items };
    }
    if (isScalar(node)) return this.#scalar(node, place);
    return constant(place, null);
  }

  #scalar(node: Scalar, place: Place): Located {
    const { value } = node;
    if (typeof value === "string")
      return { kind: "scalar", place, value, placeOf: this.#placesWithin(node, value, place) };
    if (value === null || typeof value === "number" || typeof value === "boolean")
      return constant(place, value);
    this.#problems.add(place, "the value is neither text nor a number; put it in quotes");
    return constant(place, null);
  }

  /** Exact for text that the file contains literally, which nearly all text is. */
  #placesWithin(node: Scalar, value: string, place: Place): (offset: number) => Place {
    const [from, to] = [node.range?.[0] ?? 0, node.range?.[1] ?? 0];
    const source = this.#text.slice(from, to);
    if (node.type === Scalar.BLOCK_LITERAL) {
      const bodyAt = source.indexOf("\n") + 1;
      const indent = /^(?:[ ]*\n)*(?<indent>[ ]*)/.exec(source.slice(bodyAt))?.groups?.["indent"];
      return (offset) => {
        const before = value.slice(0, offset).split("\n");
        const column = (before.at(-1)?.length ?? 0) + (indent?.length ?? 0) + 1;
        return { line: this.#placeAt(from).line + before.length, column };
      };
    }
    const quote = node.type === Scalar.PLAIN ? 0 : 1;
    const isAsWritten = source.slice(quote, source.length - quote) === value;
    return (offset) => (isAsWritten ? this.#placeAt(from + quote + offset) : place);
  }
}

function constant(place: Place, value: LocatedScalar["value"]): LocatedScalar {
  return { kind: "scalar", place, value, placeOf: () => place };
}

/** The value without its positions. */
export function plainValue(located: Located): unknown {
  switch (located.kind) {
    case "scalar":
      return located.value;
    case "list":
      return located.items.map(plainValue);
    case "map":
      // Entries become own properties, even one that is named __proto__.
      return Object.fromEntries(
        located.entries.map(({ name, value }) => [name, plainValue(value)]),
      );
  }
}

function firstLine(message: string): string {
  return message.split("\n", 1)[0] ?? message;
}
