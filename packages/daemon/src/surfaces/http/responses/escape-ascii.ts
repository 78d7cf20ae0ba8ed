/** JSON escapes of ASCII text from bytes to bytes, several times as fast as through strings. */

const BACKSLASH = 0x5c;
const FIRST_PRINTABLE = 0x20;
const LONG_ESCAPE = 1;
/** The length of `\u001f`. */
const LONG_ESCAPE_BYTES = 6;
/** How much longer four bytes can become. */
const MAX_GROWTH_BYTES = 4 * (LONG_ESCAPE_BYTES - 1);
const [U, ZERO] = Buffer.from("u0") as unknown as readonly [number, number];
const HEX_DIGITS = Buffer.from("0123456789abcdef");
/** By byte: what follows the backslash, LONG_ESCAPE, or 0 if the byte stands for itself. */
const ESCAPES = new Uint8Array(128);
ESCAPES.fill(LONG_ESCAPE, 0, FIRST_PRINTABLE);
for (const sign of ["\b", "\f", "\n", "\r", "\t", '"', "\\"])
  ESCAPES[sign.charCodeAt(0)] = JSON.stringify(sign).charCodeAt(2);

/**
 * Writes what `JSON.stringify` puts between the quotes; returns where it ends. Writes nothing from
 * `limit` on: undefined if there is too little room, or only a few bytes more than needed.
 */
export function escapeAscii(
  text: Uint8Array,
  target: Buffer,
  start: number,
  limit: number,
): number | undefined {
  const source = new DataView(text.buffer, text.byteOffset, text.byteLength);
  const words = new DataView(target.buffer, target.byteOffset, target.byteLength);
  const { length } = text;
  let at = start;
  let from = 0;
  while (from < length) {
    // Enough until the next check: every byte left takes at least one, and one word is escaped.
    if (limit - at < length - from + MAX_GROWTH_BYTES) return undefined;
    for (; from + 4 <= length; from += 4) {
      const word = source.getInt32(from, true);
      if (hasEscape(word)) break;
      words.setInt32(at, word, true);
      at += 4;
    }
    for (const end = Math.min(from + 4, length); from < end; from++)
      at = escapeByte(text[from] ?? 0, target, at);
  }
  return at;
}

/**
 * Whether one of four ASCII bytes is below 0x20, a quote or a backslash. None has its high bit, so
 * a subtraction sets one only if some byte is less than what it takes off.
 */
function hasEscape(word: number): boolean {
  const isBelow = word - 0x20_20_20_20;
  const isQuote = (word ^ 0x22_22_22_22) - 0x01_01_01_01;
  const isBackslash = (word ^ 0x5c_5c_5c_5c) - 0x01_01_01_01;
  return ((isBelow | isQuote | isBackslash) & 0x80_80_80_80) !== 0;
}

function escapeByte(byte: number, target: Buffer, at: number): number {
  const escape = ESCAPES[byte] ?? 0;
  if (escape === 0) {
    target[at] = byte;
    return at + 1;
  }
  target[at] = BACKSLASH;
  if (escape !== LONG_ESCAPE) {
    target[at + 1] = escape;
    return at + 2;
  }
  target[at + 1] = U;
  target[at + 2] = ZERO;
  target[at + 3] = ZERO;
  target[at + 4] = ZERO + (byte >>> 4);
  target[at + 5] = HEX_DIGITS[byte & 0xf] ?? 0;
  return at + LONG_ESCAPE_BYTES;
}
