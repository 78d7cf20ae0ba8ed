/** Reads settings from a YAML file, with the position of each. */
import { isAlias, isMap, isNode, isScalar, LineCounter, parseDocument } from "yaml";
import type { Document, ErrorCode, Node, Pair, YAMLMap } from "yaml";
import type { ConfigKey } from "./keys.ts";
import { byWholeOrLastPart, nearestName } from "./nearest-name.ts";
import { olderNameWarning, olderPool } from "./older-keys.ts";
import type { Candidate } from "./nearest-name.ts";
import type { Layer, Setting } from "./settings.ts";
import { show } from "./settings.ts";

/**
 * SECURITY: the parser's own messages for these errors quote the file, which may expose a key
 * (threat: leaked secrets and descriptors). Guarded by yaml-settings.test.ts.
 */
const OWN_WORDS: Partial<Record<ErrorCode, string>> = {
  BAD_ALIAS: "invalid anchor or alias; put the text in quotes",
  BAD_DIRECTIVE: "unknown directive",
  BAD_DQ_ESCAPE: "invalid backslash escape; use single quotes",
  BAD_PROP_ORDER: "misplaced anchor or tag",
  BAD_SCALAR_START: "text cannot start like this; put it in quotes",
  TAG_RESOLVE_FAILED: "unknown tag (!); put the text in quotes",
  UNEXPECTED_TOKEN: "unexpected content; put text in quotes",
};

/** `path` is only for messages. */
export function yamlLayer(path: string, text: string, keys: readonly ConfigKey[]): Layer {
  const lines = new LineCounter();
  const document = parseDocument(text, { lineCounter: lines, prettyErrors: false });
  const at = (offset: number): string => {
    const { line, col } = lines.linePos(offset);
    return `${path}:${line}:${col}`;
  };
  const faults = [...document.errors, ...document.warnings].map(
    ({ code, message, pos }) => `${at(pos[0])}: ${OWN_WORDS[code] ?? message}`,
  );
  if (faults.length > 0) return { settings: [], problems: faults, warnings: [], unreadable: true };
  const reader = new YamlReader(document, keys, at);
  if (document.contents !== null) reader.readGroup([], document.contents);
  const { settings, problems, warnings } = reader;
  return { settings, problems, warnings };
}

class YamlReader {
  readonly settings: Setting[] = [];
  readonly problems: string[] = [];
  readonly warnings: string[] = [];
  readonly #document: Document.Parsed;
  readonly #keys: readonly ConfigKey[];
  readonly #at: (offset: number) => string;

  constructor(
    document: Document.Parsed,
    keys: readonly ConfigKey[],
    at: (offset: number) => string,
  ) {
    this.#document = document;
    this.#keys = keys;
    this.#at = at;
  }

  /** A group of keys; the whole file is one. A group with only comments counts as absent. */
  readGroup(path: readonly string[], node: Node): void {
    const group = this.#resolve(node);
    if (isScalar(group) && group.value === null) return;
    if (!isMap(group)) {
      const name = path.length === 0 ? "the file" : path.join(".");
      const names = this.#namesBelow(path).join(", ");
      this.problems.push(`${this.#position(node)}: ${name} must be a mapping with ${names}`);
      return;
    }
    for (const pair of (group as YAMLMap<Node, Node | null>).items) this.#readPair(path, pair);
  }

  #readPair(
    above: readonly string[],
    { key: keyNode, value: node }: Pair<Node, Node | null>,
  ): void {
    const name = isScalar(keyNode) ? String(keyNode.value) : "";
    const path = [...above, name];
    const key = this.#keys.find((candidate) => candidate.name === path.join("."));
    if (key !== undefined && key.path.length !== path.length) {
      const [last, groups] = [key.path.at(-1) ?? "", key.path.slice(0, -1).join(".")];
      this.problems.push(
        `${this.#position(keyNode)}: ${key.name} must be written without the dot: ${last} as an entry of the mapping ${groups}`,
      );
      return;
    }
    const isGroup = this.#namesBelow(path).length > 0;
    const older = key === undefined ? olderNameWarning(path.join(".")) : undefined;
    if (older !== undefined) {
      this.warnings.push(`${this.#position(keyNode)}: ${older}`);
    } else if (key === undefined && !isGroup) {
      const nearest = nearestName(name, this.#candidates(above));
      this.problems.push(
        `${this.#position(keyNode)}: ${path.join(".")} is not known; the nearest known name is ${nearest}`,
      );
    } else if (key === undefined) {
      if (node !== null) this.readGroup(path, node);
    } else {
      this.#readValue(key, keyNode, node);
    }
  }

  #readValue(key: ConfigKey, keyNode: Node, node: Node | null): void {
    const written = this.#valueOf(node);
    const pool = key.name === "pool" ? olderPool(written) : undefined;
    if (pool !== undefined)
      this.warnings.push(
        `${this.#position(keyNode)}: pool uses the format of the older Sandkasten; write it as a list, as in [{ image: python, size: 3 }]`,
      );
    const value = pool ?? written;
    if (value === null) {
      this.problems.push(
        `${this.#position(keyNode)}: ${key.name} is ${show(null)}; give it a value or remove the line`,
      );
    } else if (value === undefined) {
      this.problems.push(
        `${this.#position(node)}: ${key.name} has an alias that cannot be followed`,
      );
    } else {
      const locate: Setting["locate"] = (part, which) =>
        this.#position(this.#nearestNode([...key.path, ...part], which) ?? node);
      this.settings.push({ key, value, locate, source: { kind: "file", name: locate([]) } });
    }
  }

  /** Undefined if it contains an invalid alias. */
  #valueOf(node: Node | null): unknown {
    if (node === null) return null;
    try {
      return node.toJS(this.#document) as unknown;
    } catch (error) {
      if (error instanceof ReferenceError) return undefined;
      throw error;
    }
  }

  /** The node at a path, or the innermost existing node around it. */
  #nearestNode(path: readonly PropertyKey[], which: "value" | "name" = "value"): Node | undefined {
    const [above, name] = [path.slice(0, -1), path.at(-1)];
    if (name === undefined) return undefined;
    const around = this.#document.getIn(above, true);
    if (which === "value" || !isMap<Node>(around)) {
      const node = this.#document.getIn(path, true);
      return isNode(node) ? node : this.#nearestNode(above);
    }
    return around.items.find(({ key }) => isScalar(key) && key.value === name)?.key;
  }

  #resolve(node: Node): Node | undefined {
    return isAlias(node) ? node.resolve(this.#document) : node;
  }

  #position(node: Node | null): string {
    return this.#at(node?.range?.[0] ?? 0);
  }

  #namesBelow(path: readonly string[]): string[] {
    const below = this.#keys.filter(
      (key) => key.path.length > path.length && path.every((name, at) => key.path[at] === name),
    );
    return [...new Set(below.map((key) => key.path[path.length] ?? ""))];
  }

  /** Possible intended names: of this group, or keys of another one. */
  #candidates(group: readonly string[]): Candidate[] {
    const here = this.#namesBelow(group).map((name) => ({
      compared: name,
      shown: [...group, name].join("."),
    }));
    const anywhere = this.#keys.map(({ path, name }) => ({ path, shown: name }));
    return [...here, ...byWholeOrLastPart(anywhere)];
  }
}
