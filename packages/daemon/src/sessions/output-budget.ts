/** Keeps the head and the tail of a command's output within a budget, however much there is, and in however small pieces. */
import type { OutputStream } from "@sandkasten/protocol";
import type { CollectedOutput } from "./services.ts";

/** Small chunks of one stream are put together up to this size. */
const PIECE_BYTES = 4096;
/** What one more piece costs beside its bytes; the first ones are free. */
const PIECE_COST = 64;
const FREE_PIECES = 1024;

/** Bytes of one stream that came one after the other. */
class Piece {
  readonly stream: OutputStream;
  #bytes: Buffer;
  #start = 0;
  #end: number;

  constructor(stream: OutputStream, bytes: Uint8Array) {
    this.stream = stream;
    this.#bytes = Buffer.from(bytes);
    this.#end = bytes.length;
  }

  get length(): number {
    return this.#end - this.#start;
  }

  get bytes(): Buffer {
    return this.#bytes.subarray(this.#start, this.#end);
  }

  /** False when it is full, or of the other stream. */
  append(stream: OutputStream, bytes: Uint8Array): boolean {
    const end = this.#end + bytes.length;
    if (stream !== this.stream || end > PIECE_BYTES) return false;
    if (end > this.#bytes.length) {
      const larger = Buffer.allocUnsafe(
        Math.min(PIECE_BYTES, Math.max(end, 2 * this.#bytes.length)),
      );
      this.#bytes.copy(larger, 0, 0, this.#end);
      this.#bytes = larger;
    }
    this.#bytes.set(bytes, this.#end);
    this.#end = end;
    return true;
  }

  dropFirst(bytes: number): void {
    this.#start += bytes;
  }
}

/** Pieces in order, of which the first can be taken away at little cost. */
class Pieces {
  #all: Piece[] = [];
  #gone = 0;
  #bytes = 0;

  get bytes(): number {
    return this.#bytes;
  }

  /** Its bytes, and what it takes to keep them. */
  get cost(): number {
    const count = this.#all.length - this.#gone;
    return this.#bytes + Math.max(0, count - FREE_PIECES) * PIECE_COST;
  }

  add(stream: OutputStream, bytes: Uint8Array): void {
    this.#bytes += bytes.length;
    const last = this.#all.length > this.#gone ? this.#all.at(-1) : undefined;
    if (last?.append(stream, bytes) !== true) this.#all.push(new Piece(stream, bytes));
  }

  /** Takes away at most so many bytes from the front, no more than one piece; tells how many. */
  dropFirst(most: number): number {
    const first = this.#all[this.#gone];
    if (first === undefined) return 0;
    const dropped = Math.min(most, first.length);
    this.#bytes -= dropped;
    first.dropFirst(dropped);
    if (first.length > 0) return dropped;
    this.#gone += 1;
    if (this.#gone > FREE_PIECES && this.#gone > this.#all.length / 2) {
      this.#all = this.#all.slice(this.#gone);
      this.#gone = 0;
    }
    return dropped;
  }

  of(stream: OutputStream | undefined): Buffer {
    const wanted = this.#all
      .slice(this.#gone)
      .filter((piece) => stream === undefined || piece.stream === stream);
    return Buffer.concat(wanted.map(({ bytes }) => bytes));
  }
}

export class OutputBudget {
  readonly budgetBytes: number;
  readonly #headRoom: number;
  readonly #tailRoom: number;
  readonly #head = new Pieces();
  readonly #tail = new Pieces();
  #totalBytes = 0;

  constructor(budgetBytes: number) {
    this.budgetBytes = budgetBytes;
    this.#headRoom = Math.ceil(budgetBytes / 2);
    this.#tailRoom = budgetBytes - this.#headRoom;
  }

  get keptBytes(): number {
    return this.#head.bytes + this.#tail.bytes;
  }

  /** What it takes to keep them. */
  get cost(): number {
    return this.#head.cost + this.#tail.cost;
  }

  /** Copies what it keeps. */
  add(stream: OutputStream, bytes: Uint8Array): void {
    this.#totalBytes += bytes.length;
    const room = this.#tail.bytes > 0 ? 0 : this.#headRoom - this.#head.cost;
    const forHead = Math.max(0, Math.min(bytes.length, room));
    if (forHead > 0) this.#head.add(stream, bytes.subarray(0, forHead));
    const forTail = Math.min(bytes.length - forHead, this.#tailRoom);
    if (forTail === 0) return;
    this.#tail.add(stream, bytes.subarray(bytes.length - forTail));
    while (this.#tail.cost > this.#tailRoom) this.#tail.dropFirst(this.#tail.cost - this.#tailRoom);
  }

  /** Notes bytes that went missing before they came here. */
  addMissing(bytes: number): void {
    this.#totalBytes += bytes;
  }

  collect(): CollectedOutput {
    const omitted = this.#totalBytes - this.keptBytes;
    return {
      output: this.#join(undefined, omitted),
      stdout: this.#join("stdout", omitted),
      stderr: this.#join("stderr", omitted),
      truncated: omitted > 0,
    };
  }

  #join(stream: OutputStream | undefined, omitted: number): Uint8Array {
    const head = this.#head.of(stream);
    const tail = this.#tail.of(stream);
    if (omitted === 0) return tail.length === 0 ? head : Buffer.concat([head, tail]);
    if (stream !== undefined && head.length + tail.length === 0) return head;
    return Buffer.concat([
      withoutBrokenEnd(head),
      Buffer.from(`\n[… ${omitted} bytes omitted …]\n`),
      withoutBrokenStart(tail),
    ]);
  }
}

/** Where a cut went through a character, its rest is left out. */
function withoutBrokenEnd(bytes: Buffer): Buffer {
  for (let back = 1; back <= Math.min(3, bytes.length); back++) {
    const byte = bytes[bytes.length - back] ?? 0;
    if (byte < 0x80) return bytes;
    if (byte >= 0xc0) {
      const length = byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : 2;
      return back < length ? bytes.subarray(0, bytes.length - back) : bytes;
    }
  }
  return bytes;
}

function withoutBrokenStart(bytes: Buffer): Buffer {
  let start = 0;
  while (start < 3 && start < bytes.length && ((bytes[start] ?? 0) & 0xc0) === 0x80) start++;
  return bytes.subarray(start);
}
