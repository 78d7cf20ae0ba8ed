/** Keeps the head and tail of a command's output within a budget, for any amount and chunk size. */
import type { OutputStream } from "@sandkasten/protocol";
import { OutputRing } from "./output-ring.ts";
import type { CollectedOutput } from "./services/exec-service.ts";

export class OutputBudget {
  readonly budgetBytes: number;
  readonly #head: OutputRing;
  readonly #tail: OutputRing;
  #totalBytes = 0;

  constructor(budgetBytes: number) {
    this.budgetBytes = budgetBytes;
    this.#head = new OutputRing(Math.ceil(budgetBytes / 2));
    this.#tail = new OutputRing(Math.floor(budgetBytes / 2));
  }

  get keptBytes(): number {
    return this.#head.bytes + this.#tail.bytes;
  }

  /** The memory cost of what is kept. */
  get cost(): number {
    return this.#head.cost + this.#tail.cost;
  }

  /** Copies the bytes that it keeps. */
  add(stream: OutputStream, bytes: Uint8Array): void {
    this.#totalBytes += bytes.length;
    const room = this.#tail.bytes > 0 ? 0 : this.#head.room;
    const forHead = Math.min(bytes.length, room);
    if (forHead > 0) this.#head.add(stream, bytes.subarray(0, forHead));
    if (forHead < bytes.length) this.#tail.add(stream, bytes.subarray(forHead));
  }

  /** Counts bytes that were lost before they arrived here. */
  addMissing(bytes: number): void {
    this.#totalBytes += bytes;
  }

  collect(): CollectedOutput {
    const omitted = this.#totalBytes - this.keptBytes;
    const output = this.#join(undefined, omitted);
    return {
      output,
      stdout: this.#isAllOf("stdout") ? output : this.#join("stdout", omitted),
      stderr: this.#isAllOf("stderr") ? output : this.#join("stderr", omitted),
      truncated: omitted > 0,
      endOffset: this.#totalBytes,
    };
  }

  #isAllOf(stream: OutputStream): boolean {
    const bytes = this.#head.bytesOf(stream) + this.#tail.bytesOf(stream);
    return bytes > 0 && bytes === this.keptBytes;
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

/** Drops the rest of a character that was cut. */
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
