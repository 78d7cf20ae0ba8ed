/** Truncates text to a number of bytes, keeping its beginning and its end. */

export interface ShortText {
  readonly text: string;
  /** How much of the beginning remains. */
  readonly headBytes: number;
  readonly omittedBytes: number;
}

/** Replaces the omitted part by a line that says how large it was. */
export function headAndTail(text: string, maxBytes: number): ShortText {
  const bytes = Buffer.from(text);
  if (bytes.length <= maxBytes) return { text, headBytes: bytes.length, omittedBytes: 0 };
  const head = bytes.subarray(0, characterStart(bytes, Math.ceil(maxBytes / 2)));
  const tail = bytes.subarray(characterStart(bytes, bytes.length - Math.floor(maxBytes / 2)));
  const omittedBytes = bytes.length - head.length - tail.length;
  return {
    text: `${head.toString()}\n[… ${omittedBytes} bytes omitted …]\n${tail.toString()}`,
    headBytes: head.length,
    omittedBytes,
  };
}

/** The offset, moved back to the start of a character. */
function characterStart(bytes: Uint8Array, offset: number): number {
  let start = offset;
  while (start > 0 && ((bytes[start] ?? 0) & 0xc0) === 0x80) start -= 1;
  return start;
}
