/** Serializes responses as JSON: small ones at once, large ones in pieces, with other work in between. */
import { Readable } from "node:stream";

/** Characters in all texts of a response. */
const LARGE_LENGTH = 1_048_576;
const PIECE_LENGTH = 65_536;

/**
 * For Fastify, which sends a stream as is, although its types only allow strings.
 *
 * SECURITY: a command can print megabytes of which each byte takes six in JSON, and serializing them at
 * once would block all other requests. Guarded by stalls.test.ts.
 */
export function toJson(body: unknown): string {
  return textLength(body) <= LARGE_LENGTH
    ? JSON.stringify(body)
    : (Readable.from(inTurns(body)) as unknown as string);
}

function textLength(value: unknown): number {
  if (typeof value === "string") return value.length;
  if (typeof value !== "object" || value === null) return 0;
  let length = 0;
  for (const name in value)
    length += textLength((value as Readonly<Record<string, unknown>>)[name]);
  return length;
}

async function* inTurns(body: unknown): AsyncGenerator<string> {
  let piece = "";
  for (const part of jsonParts(body)) {
    piece += part;
    if (piece.length < PIECE_LENGTH) continue;
    yield piece;
    piece = "";
    await new Promise(setImmediate);
  }
  yield piece;
}

/** The output of `JSON.stringify` for a value, in parts of bounded length. */
export function* jsonParts(value: unknown): Generator<string> {
  if (typeof value === "string") yield* textParts(value);
  else if (Array.isArray(value)) {
    for (const [index, item] of value.entries()) {
      yield index === 0 ? "[" : ",";
      yield* jsonParts(item ?? null);
    }
    yield value.length === 0 ? "[]" : "]";
  } else if (typeof value === "object" && value !== null) {
    const fields = Object.entries(value).filter(([, field]) => field !== undefined);
    for (const [index, [name, field]] of fields.entries()) {
      yield `${index === 0 ? "{" : ","}${JSON.stringify(name)}:`;
      yield* jsonParts(field);
    }
    yield fields.length === 0 ? "{}" : "}";
  } else yield JSON.stringify(value);
}

function* textParts(text: string): Generator<string> {
  yield '"';
  for (let at = 0; at < text.length;) {
    const end = at + PIECE_LENGTH;
    // Keep surrogate pairs together.
    const isSplit = /[\ud800-\udbff]/.test(text.charAt(end - 1));
    const piece = text.slice(at, isSplit ? end - 1 : end);
    yield JSON.stringify(piece).slice(1, -1);
    at += piece.length;
  }
  yield '"';
}
