/** A DNS query over TCP and its response: just enough to query the runner. */

const HEADER_BYTES = 12;
const LENGTH_BYTES = 2;
const ID = 0x534b;
const RECURSION_DESIRED = 0x0100;
const TYPE_A = 1;
const CLASS_INTERNET = 1;

export function nameQuestion(name: string): Buffer {
  const labels = name
    .split(".")
    .map((label) => Buffer.concat([Buffer.of(label.length), Buffer.from(label)]));
  const numbers = (...values: readonly number[]): Buffer =>
    Buffer.concat(values.map((value) => Buffer.of(value >> 8, value & 0xff)));
  const message = Buffer.concat([
    numbers(ID, RECURSION_DESIRED, 1, 0, 0, 0),
    ...labels,
    Buffer.of(0),
    numbers(TYPE_A, CLASS_INTERNET),
  ]);
  return Buffer.concat([numbers(message.byteLength), message]);
}

/**
 * The first address in a complete response to the query, or `none` if it has none. Undefined for an
 * incomplete response, and for anything else.
 */
export function addressInAnswer(bytes: Buffer, question: Buffer): string | undefined {
  const header = LENGTH_BYTES + HEADER_BYTES;
  if (bytes.byteLength < header) return undefined;
  const length = LENGTH_BYTES + bytes.readUInt16BE(0);
  const isAnswer = bytes.readUInt16BE(LENGTH_BYTES) === ID && ((bytes[4] ?? 0) & 0x80) !== 0;
  if (bytes.byteLength < length || !isAnswer) return undefined;
  if (bytes.readUInt16BE(LENGTH_BYTES + 6) === 0) return "none";
  // The query is repeated before the answers; name, type, class, time and length of the first take 12 bytes.
  const address = bytes.subarray(
    question.byteLength + 12,
    Math.min(length, question.byteLength + 16),
  );
  return address.byteLength === 4 ? [...address].join(".") : undefined;
}
