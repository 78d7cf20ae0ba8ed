/**
 * Detects YAML that is nested too deeply before it is parsed: the parser needs minutes for a
 * megabyte of `[`.
 */

export interface PlaceInText {
  readonly line: number;
  readonly column: number;
}

export const MAX_YAML_NESTING = 200;
/** Lists and names that begin on one line: `- - - x`. */
const IN_ONE_LINE = new RegExp(`^[ \\t]*(?:[-?][ \\t]+){${MAX_YAML_NESTING}}`, "m");

/**
 * The position where the nesting exceeds the limit. Brackets in texts count, too: text that people
 * write never has that many unclosed ones.
 *
 * SECURITY: a process that parses for longer than its heartbeat timeout loses its runs. Guarded by
 * yaml-nesting.test.ts.
 */
export function tooDeepAt(yaml: string): PlaceInText | undefined {
  let depth = 0;
  for (const { 0: sign, index } of yaml.matchAll(/[[{\]}]/g)) {
    depth = sign === "[" || sign === "{" ? depth + 1 : Math.max(0, depth - 1);
    if (depth > MAX_YAML_NESTING) return placeAt(yaml, index);
  }
  const index = IN_ONE_LINE.exec(yaml)?.index;
  return index === undefined ? undefined : placeAt(yaml, index);
}

function placeAt(text: string, index: number): PlaceInText {
  const before = text.slice(0, index).split("\n");
  return { line: before.length, column: (before.at(-1) ?? "").length + 1 };
}
