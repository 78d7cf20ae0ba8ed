/** Checks the shape of JSON text before it is parsed: parsing millions of small values takes seconds. */

/** What clients and models may send. Large data belongs in files. */
export const JSON_SHAPE: JsonShapeLimits = { maxDepth: 200, maxValues: 50_000 };

export interface JsonShapeLimits {
  readonly maxDepth: number;
  readonly maxValues: number;
}

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const COMMA = 0x2c;
const OPENING = new Set([0x5b, 0x7b]);
const CLOSING = new Set([0x5d, 0x7d]);

/** The problem with the text, whether or not it is valid JSON; undefined if parsing it is cheap. */
export function shapeProblem(
  text: string,
  { maxDepth, maxValues }: JsonShapeLimits,
): string | undefined {
  let depth = 0;
  let values = 1;
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at);
    if (code === QUOTE) at = endOfString(text, at);
    else if (CLOSING.has(code)) depth -= 1;
    else if (code === COMMA || OPENING.has(code)) values += 1;
    if (OPENING.has(code)) depth += 1;
    if (depth > maxDepth) return `nested more than ${maxDepth} levels deep`;
    if (values > maxValues) return `made of more than ${maxValues} values`;
  }
  return undefined;
}

/** The position of the closing quote, or the end of the text. */
function endOfString(text: string, start: number): number {
  for (let at = text.indexOf('"', start + 1); at !== -1; at = text.indexOf('"', at + 1)) {
    let backslashes = 0;
    while (text.charCodeAt(at - 1 - backslashes) === BACKSLASH) backslashes += 1;
    if (backslashes % 2 === 0) return at;
  }
  return text.length;
}
