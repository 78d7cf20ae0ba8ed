/** Keeps the head and the tail of a command's output within a budget, however much there is. */
import type { OutputStream } from "@sandkasten/protocol";
import type { CollectedOutput } from "./services.ts";

interface Piece {
  readonly stream: OutputStream;
  readonly bytes: Uint8Array;
}

export class OutputBudget {
  readonly budgetBytes: number;
  readonly #headRoom: number;
  readonly #tailRoom: number;
  readonly #head: Piece[] = [];
  readonly #tail: Piece[] = [];
  #headBytes = 0;
  #tailBytes = 0;
  #totalBytes = 0;

  constructor(budgetBytes: number) {
    this.budgetBytes = budgetBytes;
    this.#headRoom = Math.ceil(budgetBytes / 2);
    this.#tailRoom = budgetBytes - this.#headRoom;
  }

  get keptBytes(): number {
    return this.#headBytes + this.#tailBytes;
  }

  /** Copies what it keeps. */
  add(stream: OutputStream, bytes: Uint8Array): void {
    this.#totalBytes += bytes.length;
    const forHead = Math.min(bytes.length, this.#headRoom - this.#headBytes);
    if (forHead > 0) {
      this.#head.push({ stream, bytes: Uint8Array.from(bytes.subarray(0, forHead)) });
      this.#headBytes += forHead;
    }
    const rest = Math.min(bytes.length - forHead, this.#tailRoom);
    if (rest === 0) return;
    this.#tail.push({ stream, bytes: Uint8Array.from(bytes.subarray(bytes.length - rest)) });
    this.#tailBytes += rest;
    this.#trimTail();
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

  #trimTail(): void {
    while (this.#tailBytes > this.#tailRoom) {
      const first = this.#tail[0];
      if (first === undefined) return;
      const excess = this.#tailBytes - this.#tailRoom;
      if (first.bytes.length <= excess) {
        this.#tail.shift();
        this.#tailBytes -= first.bytes.length;
      } else {
        this.#tail[0] = { ...first, bytes: first.bytes.subarray(excess) };
        this.#tailBytes -= excess;
      }
    }
  }

  #join(stream: OutputStream | undefined, omitted: number): Uint8Array {
    const pick = (pieces: readonly Piece[]): Buffer =>
      Buffer.concat(
        pieces
          .filter((piece) => stream === undefined || piece.stream === stream)
          .map(({ bytes }) => bytes),
      );
    const head = pick(this.#head);
    const tail = pick(this.#tail);
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
