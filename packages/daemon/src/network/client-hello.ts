/** Reads the server name from the first message of a TLS client. */

/** The state of the bytes so far. `sni` is as the client wrote it, absent if it names none. */
export type FirstWords =
  | { readonly kind: "more" }
  | { readonly kind: "other" }
  | { readonly kind: "malformed"; readonly reason: string }
  | { readonly kind: "hello"; readonly sni?: string };

const HANDSHAKE_RECORD = 22;
const CLIENT_HELLO = 1;
const SERVER_NAME = 0;
const HOST_NAME = 0;
const MAX_RECORD_BYTES = 2 ** 14;
/** Post-quantum key shares take one or two KiB; no client needs more than this. */
const MAX_HELLO_BYTES = 32 * 1024;

/**
 * SECURITY: a server must not find another name here than this code does, so anything that
 * deviates from RFC 8446 is malformed instead of skipped. Guarded by client-hello.test.ts.
 */
export function readFirstWords(bytes: Uint8Array): FirstWords {
  if (bytes.length === 0) return { kind: "more" };
  if (bytes[0] !== HANDSHAKE_RECORD) return { kind: "other" };
  try {
    const hello = assembleHello(new Reader(bytes));
    return hello === undefined ? { kind: "more" } : { kind: "hello", ...nameIn(hello) };
  } catch (error) {
    if (error instanceof Malformed) return { kind: "malformed", reason: error.message };
    throw error;
  }
}

/** The body of the message, which can be split over several records. Undefined until it is complete. */
function assembleHello(input: Reader): Reader | undefined {
  const parts: Uint8Array[] = [];
  let have = 0;
  let need: number | undefined;
  while (input.left > 0) {
    if (input.left < 5) return undefined;
    if (input.uint(1) !== HANDSHAKE_RECORD) throw new Malformed("another record interrupts it");
    if (input.uint(1) !== 3) throw new Malformed("its record has an unknown version");
    input.uint(1);
    const length = input.uint(2);
    if (length === 0 || length > MAX_RECORD_BYTES)
      throw new Malformed("its record has an impossible length");
    const part = input.bytes(Math.min(length, input.left));
    parts.push(part);
    have += part.length;
    if (need === undefined && have >= 4) need = helloLength(parts);
    // More data in the same record would be a second message, which no client sends here.
    if (need !== undefined && have > need)
      throw new Malformed("something follows it in its record");
    if (need === have) return new Reader(Buffer.concat(parts).subarray(4));
    if (part.length < length) return undefined;
  }
  return undefined;
}

function helloLength(parts: readonly Uint8Array[]): number {
  const head = new Reader(Buffer.concat(parts).subarray(0, 4));
  if (head.uint(1) !== CLIENT_HELLO) throw new Malformed("it is not a ClientHello");
  const length = 4 + head.uint(3);
  if (length > MAX_HELLO_BYTES) throw new Malformed("it is too long");
  return length;
}

function nameIn(hello: Reader): { readonly sni?: string } {
  if (hello.uint(1) !== 3) throw new Malformed("it has an unknown version");
  hello.uint(1);
  hello.bytes(32);
  if (hello.vector(1).left > 32) throw new Malformed("its session id is too long");
  const suites = hello.vector(2).left;
  if (suites < 2 || suites % 2 !== 0) throw new Malformed("its cipher suites are cut off");
  if (hello.vector(1).left === 0) throw new Malformed("it has no compression method");
  if (hello.left === 0) return {};
  const extensions = hello.vector(2);
  hello.end();
  const seen = new Set<number>();
  let sni: string | undefined;
  while (extensions.left > 0) {
    const type = extensions.uint(2);
    const content = extensions.vector(2);
    // With two names, readers could choose different ones.
    if (seen.has(type)) throw new Malformed("it has an extension twice");
    seen.add(type);
    if (type === SERVER_NAME) sni = serverName(content);
  }
  return sni === undefined ? {} : { sni };
}

function serverName(content: Reader): string {
  const names = content.vector(2);
  content.end();
  if (names.uint(1) !== HOST_NAME) throw new Malformed("its server name is of an unknown type");
  const name = names.vector(2);
  names.end();
  const text = Buffer.from(name.bytes(name.left)).toString("latin1");
  if (!/^[\x21-\x7e]+$/.test(text)) throw new Malformed("its server name is not plain ASCII");
  return text;
}

class Malformed extends Error {}

/** Reads big-endian numbers and vectors; reading beyond the end is malformed. */
class Reader {
  readonly #bytes: Buffer;
  #at = 0;

  constructor(bytes: Uint8Array) {
    this.#bytes = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  }

  get left(): number {
    return this.#bytes.length - this.#at;
  }

  uint(size: 1 | 2 | 3): number {
    this.#need(size);
    const value = this.#bytes.readUIntBE(this.#at, size);
    this.#at += size;
    return value;
  }

  bytes(length: number): Uint8Array {
    this.#need(length);
    this.#at += length;
    return this.#bytes.subarray(this.#at - length, this.#at);
  }

  /** A vector that begins with a length of this many bytes. */
  vector(lengthSize: 1 | 2): Reader {
    return new Reader(this.bytes(this.uint(lengthSize)));
  }

  end(): void {
    if (this.left > 0) throw new Malformed("a length in it does not fit");
  }

  #need(length: number): void {
    if (length > this.left) throw new Malformed("a length in it does not fit");
  }
}
