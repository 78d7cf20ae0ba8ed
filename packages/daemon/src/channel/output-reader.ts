/** Tracks the position in a command's output: received, delivered and consumed. */
import { decodeOutputHead, OUTPUT_HEAD_BYTES, ProtocolError } from "@sandkasten/protocol";
import type { OutputChunk } from "../ports/channel.ts";
import { Inbox } from "./inbox.ts";
import type { WireStream } from "./wire-stream.ts";

export class OutputReader {
  readonly #inbox = new Inbox();
  #stream: WireStream | undefined;
  /** Where the next OUTPUT of the current attachment may begin. */
  #expectedOffset: number;
  #lastSeq = -1;
  /** End of the output delivered to the consumer. */
  #deliveredOffset: number;
  /** End of the output that the consumer has finished with; the runner may discard everything before it. */
  #consumedOffset: number;
  /** Received bytes whose credit is returned when the consumer requests the next chunk. */
  #unconsumedBytes = 0;
  stdoutBytes = 0;
  stderrBytes = 0;

  constructor(offset: number) {
    this.#expectedOffset = offset;
    this.#deliveredOffset = offset;
    this.#consumedOffset = offset;
  }

  /** Where a new attachment must begin so no output is lost. */
  get consumedOffset(): number {
    return this.#consumedOffset;
  }

  /** Whether output waits for the consumer. */
  get hasWaiting(): boolean {
    return !this.#inbox.empty;
  }

  /** Restarts on a new attachment at `consumedOffset`; undelivered output is received again. */
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
        `output at offset ${String(offset)} arrived after ${String(this.#expectedOffset)}`,
      );
    }
    const bytes = payload.byteLength - OUTPUT_HEAD_BYTES;
    this.#expectedOffset = offset + bytes;
    this.#lastSeq = seq;
    if (bytes === 0) return;
    // After a re-attachment the chunk that the consumer still holds arrives again.
    const seenBytes = Math.min(bytes, Math.max(0, this.#deliveredOffset - offset));
    this.#unconsumedBytes += seenBytes;
    if (seenBytes === 0) this.#inbox.push(payload);
    else if (seenBytes < bytes) this.#inbox.push(withoutFirstBytes(payload, seenBytes));
  }

  /** Marks the end of the output. */
  close(): void {
    this.#inbox.close();
  }

  /** Also drops output that is still waiting. */
  discard(): void {
    this.#inbox.clear();
    this.#inbox.close();
  }

  /** The next chunk, or undefined after the last. Requesting it releases the previous one. */
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

  /** Marks all delivered output as consumed. */
  consume(): void {
    this.#consumedOffset = this.#deliveredOffset;
    this.#stream?.consumed(this.#unconsumedBytes);
    this.#unconsumedBytes = 0;
  }
}

/** The same OUTPUT without its first bytes. */
function withoutFirstBytes(payload: Buffer, bytes: number): Buffer {
  const { offset } = decodeOutputHead(payload);
  const shorter = Buffer.concat([
    payload.subarray(0, OUTPUT_HEAD_BYTES),
    payload.subarray(OUTPUT_HEAD_BYTES + bytes),
  ]);
  shorter.writeBigUInt64BE(BigInt(offset + bytes), 9);
  return shorter;
}
