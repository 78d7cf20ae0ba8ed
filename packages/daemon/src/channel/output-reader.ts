/** Keeps the place in a command's output: what arrived, what was handed out, and what was used. */
import { decodeOutputHead, OUTPUT_HEAD_BYTES, ProtocolError } from "@sandkasten/protocol";
import type { OutputChunk } from "../ports/channel.ts";
import { Inbox } from "./inbox.ts";
import type { WireStream } from "./wire-stream.ts";

export class OutputReader {
  readonly #inbox = new Inbox();
  #stream: WireStream | undefined;
  /** Where the next OUTPUT of the present attachment may begin. */
  #expectedOffset: number;
  #lastSeq = -1;
  /** End of what was handed to the consumer. */
  #deliveredOffset: number;
  /** End of what the consumer is done with; the runner may forget what is before. */
  #consumedOffset: number;
  /** Received bytes that become credit when the consumer asks for the next chunk. */
  #unconsumedBytes = 0;
  stdoutBytes = 0;
  stderrBytes = 0;

  constructor(offset: number) {
    this.#expectedOffset = offset;
    this.#deliveredOffset = offset;
    this.#consumedOffset = offset;
  }

  /** Where a new attachment has to begin so that nothing is lost. */
  get consumedOffset(): number {
    return this.#consumedOffset;
  }

  /** Whether output waits for the consumer. */
  get hasWaiting(): boolean {
    return !this.#inbox.empty;
  }

  /** Starts over on a new attachment at `consumedOffset`; what was not handed out yet comes again. */
  attachTo(stream: WireStream): void {
    this.#stream = stream;
    this.#inbox.clear();
    this.#expectedOffset = this.#consumedOffset;
    this.#lastSeq = -1;
    this.#unconsumedBytes = 0;
  }

  receive(payload: Buffer): void {
    const { offset, seq } = decodeOutputHead(payload);
    if (offset < this.#expectedOffset || seq < this.#lastSeq) {
      throw new ProtocolError(
        "offset_backwards",
        `output at offset ${String(offset)} came after ${String(this.#expectedOffset)}`,
      );
    }
    const bytes = payload.byteLength - OUTPUT_HEAD_BYTES;
    this.#expectedOffset = offset + bytes;
    this.#lastSeq = seq;
    if (bytes === 0) return;
    // After a re-attachment the chunk that the consumer still holds comes once more.
    const seenBytes = Math.min(bytes, Math.max(0, this.#deliveredOffset - offset));
    this.#unconsumedBytes += seenBytes;
    if (seenBytes === 0) this.#inbox.push(payload);
    else if (seenBytes < bytes) this.#inbox.push(withoutFirstBytes(payload, seenBytes));
  }

  /** No more output will come. */
  close(): void {
    this.#inbox.close();
  }

  /** Nor will what waits be wanted. */
  discard(): void {
    this.#inbox.clear();
    this.#inbox.close();
  }

  /** The next chunk, or undefined after the last. Asking for it gives back the one before. */
  async next(): Promise<OutputChunk | undefined> {
    this.consume();
    const payload = await this.#inbox.next();
    if (payload === undefined) return undefined;
    const { fd, seq, offset } = decodeOutputHead(payload);
    const bytes = payload.subarray(OUTPUT_HEAD_BYTES);
    this.#deliveredOffset = offset + bytes.byteLength;
    this.#unconsumedBytes += bytes.byteLength;
    if (fd === 1) this.stdoutBytes += bytes.byteLength;
    else this.stderrBytes += bytes.byteLength;
    return { stream: fd === 1 ? "stdout" : "stderr", seq, offset, bytes };
  }

  /** Marks all that was handed out as used. */
  consume(): void {
    this.#consumedOffset = this.#deliveredOffset;
    this.#stream?.consumed(this.#unconsumedBytes);
    this.#unconsumedBytes = 0;
  }
}

/** The same OUTPUT, beginning later. */
function withoutFirstBytes(payload: Buffer, bytes: number): Buffer {
  const { offset } = decodeOutputHead(payload);
  const shorter = Buffer.concat([
    payload.subarray(0, OUTPUT_HEAD_BYTES),
    payload.subarray(OUTPUT_HEAD_BYTES + bytes),
  ]);
  shorter.writeBigUInt64BE(BigInt(offset + bytes), 9);
  return shorter;
}
