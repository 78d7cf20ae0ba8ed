/** Checks the shape of JSON text in one cheap pass as it arrives, before it is parsed. */

export const MAX_JSON_DEPTH = 32;

export interface JsonShapeOptions {
  /** Names and list items together. */
  readonly maxValues: number;
  /** The error for text of another shape; `problem` completes a sentence about it. */
  readonly refused: (problem: string) => Error;
}

const QUOTE = 0x22;
const COMMA = 0x2c;
const BACKSLASH = 0x5c;
const OPEN_LIST = 0x5b;
const CLOSE_LIST = 0x5d;
const OPEN_OBJECT = 0x7b;
const CLOSE_OBJECT = 0x7d;

const STRUCTURE = new Uint8Array(256);
for (const byte of [QUOTE, COMMA, OPEN_LIST, CLOSE_LIST, OPEN_OBJECT, CLOSE_OBJECT])
  STRUCTURE[byte] = 1;

/**
 * Refuses text that is nested too deeply, has too many values, has a field twice in one object, or
 * has a field `__proto__`. Invalid JSON may pass: it is parsed next.
 *
 * SECURITY: the time for parsing and validating grows with the number of values, so a few megabytes of
 * names would block the event loop for seconds; a repeated name would mean different things to
 * different readers. Guarded by json-shape.test.ts and stalls.test.ts.
 */
export class JsonShape {
  readonly #maxValues: number;
  readonly #refused: (problem: string) => Error;
  /** Names of each open object; undefined for a list. */
  readonly #open: (Set<string> | undefined)[] = [];
  #names: Set<string> | undefined;
  #nameComesNext = false;
  #values = 0;
  #inText = false;
  #afterBackslash = false;
  /** Pieces of the name that is being read. */
  #namePieces: Buffer[] = [];

  constructor({ maxValues, refused }: JsonShapeOptions) {
    this.#maxValues = maxValues;
    this.#refused = refused;
  }

  /** Throws as soon as the text so far is unacceptable. */
  add(bytes: Buffer): void {
    let at = 0;
    while (at < bytes.length) {
      if (this.#inText) at = this.#readText(bytes, at);
      else {
        const byte = bytes[at] as number;
        at += 1;
        if (STRUCTURE[byte] === 1) this.#readSign(byte);
      }
    }
  }

  #readSign(byte: number): void {
    if (byte === QUOTE) this.#inText = true;
    else if (byte === COMMA) {
      this.#nameComesNext = this.#names !== undefined;
      this.#values += 1;
      if (this.#values > this.#maxValues)
        throw this.#refused(`has more than ${this.#maxValues} values`);
    } else if (byte === OPEN_OBJECT || byte === OPEN_LIST) {
      this.#names = byte === OPEN_OBJECT ? new Set() : undefined;
      this.#nameComesNext = byte === OPEN_OBJECT;
      this.#open.push(this.#names);
      if (this.#open.length > MAX_JSON_DEPTH)
        throw this.#refused(`is nested more than ${MAX_JSON_DEPTH} levels deep`);
    } else {
      this.#open.pop();
      this.#names = this.#open.at(-1);
      this.#nameComesNext = false;
    }
  }

  /** The end of the text, or of the bytes. */
  #readText(bytes: Buffer, start: number): number {
    let at = this.#afterBackslash ? start + 1 : start;
    while (at < bytes.length && bytes[at] !== QUOTE) at += bytes[at] === BACKSLASH ? 2 : 1;
    this.#afterBackslash = at > bytes.length;
    const end = Math.min(at, bytes.length);
    if (this.#nameComesNext) this.#namePieces.push(bytes.subarray(start, end));
    if (at >= bytes.length) return end;
    this.#inText = false;
    if (this.#nameComesNext) this.#addName();
    return end + 1;
  }

  #addName(): void {
    const [first, ...more] = this.#namePieces;
    const bytes =
      first !== undefined && more.length === 0 ? first : Buffer.concat(this.#namePieces);
    const name = this.#nameOf(bytes.toString());
    this.#namePieces = [];
    this.#nameComesNext = false;
    if (name === "__proto__") throw this.#refused("has a field `__proto__`");
    if (this.#names?.has(name) === true)
      throw this.#refused(`has the field ${JSON.stringify(name.slice(0, 64))} twice`);
    this.#names?.add(name);
  }

  /** Different spellings of a name are the same name. */
  #nameOf(written: string): string {
    if (!written.includes("\\")) return written;
    try {
      return String(JSON.parse(`"${written}"`));
    } catch {
      throw this.#refused("is not valid JSON");
    }
  }
}
