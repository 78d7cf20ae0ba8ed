/** Splits a stream of bytes into frames. */
import { FRAME_HEADER_BYTES, FrameType, MAX_PAYLOAD_BYTES, OUTPUT_HEAD_BYTES } from "./frames.ts";
import type { Frame } from "./frames.ts";
import { ProtocolError } from "./protocol-error.ts";

const EMPTY = Buffer.alloc(0);

/** A payload that spans chunks is assembled in memory that is reused up to this size. */
const MAX_KEPT_BYTES = 262_144;

/**
 * An incremental frame reader. Frames that are completely in one chunk are views of it; only a frame
 * that spans chunks is copied, once, into memory that the next such frame reuses.
 *
 * SECURITY: the peer is hostile (threat: oversized messages; for example a length of 2^31 or a line of
 * 100 MB). Each header is checked before memory is reserved for its payload, so the decoder never holds
 * more than one frame of the largest size, and its reused memory. Guarded by "refuses an oversize length
 * from its header alone" in frame-decoder.test.ts.
 */
export class FrameDecoder {
  readonly #header = Buffer.allocUnsafeSlow(FRAME_HEADER_BYTES);
  #headerBytes = 0;
  /** The payload of a frame that spans chunks, and how much of it has arrived. */
  #payload: Buffer | undefined;
  #payloadBytes = 0;
  /** Reusable memory of the last payload that spanned chunks. */
  #spare = EMPTY;
  #stopped = false;

  /** Bytes held back until the rest of their frame arrives. */
  get bufferedBytes(): number {
    return this.#payload === undefined
      ? this.#headerBytes
      : FRAME_HEADER_BYTES + this.#payloadBytes;
  }

  /** Ends decoding: nothing more is yielded, not even from the chunk being pushed. */
  stop(): void {
    this.#stopped = true;
    this.#payload = undefined;
    this.letGo();
  }

  /** Frees the reusable memory, for an idle period. */
  letGo(): void {
    this.#spare = EMPTY;
  }

  /**
   * Takes a chunk and passes every completed frame to `sink`, in order. A payload is valid until
   * `sink` returns. Throws a `ProtocolError` at the first violation; from then on the decoder
   * accepts nothing.
   */
  push(chunk: Uint8Array, sink: (frame: Frame) => void): void {
    try {
      this.#push(Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength), sink);
    } catch (error) {
      this.stop();
      throw error;
    }
  }

  #push(chunk: Buffer, sink: (frame: Frame) => void): void {
    let at = 0;
    while (!this.#stopped) {
      if (this.#payload !== undefined) {
        at = this.#fillPayload(this.#payload, chunk, at, sink);
        if (this.#payload !== undefined) return;
        continue;
      }
      if (at === chunk.byteLength) return;
      let header = chunk;
      let headerAt = at;
      if (this.#headerBytes > 0 || chunk.byteLength - at < FRAME_HEADER_BYTES) {
        const taken = chunk.copy(
          this.#header,
          this.#headerBytes,
          at,
          at + FRAME_HEADER_BYTES - this.#headerBytes,
        );
        this.#headerBytes += taken;
        at += taken;
        if (this.#headerBytes < FRAME_HEADER_BYTES) return;
        header = this.#header;
        headerAt = 0;
      } else {
        at += FRAME_HEADER_BYTES;
      }
      const length = header.readUInt32BE(headerAt);
      const type = checkedType(header[headerAt + 4] ?? 0, length);
      if (chunk.byteLength - at >= length) {
        const stream = header.readUInt32BE(headerAt + 5);
        this.#headerBytes = 0;
        const payload = chunk.subarray(at, at + length);
        at += length;
        sink({ type, stream, payload });
        continue;
      }
      if (header !== this.#header)
        chunk.copy(this.#header, 0, headerAt, headerAt + FRAME_HEADER_BYTES);
      this.#headerBytes = FRAME_HEADER_BYTES;
      this.#payload = this.#memoryFor(length);
      this.#payloadBytes = 0;
    }
  }

  #memoryFor(bytes: number): Buffer {
    if (bytes > MAX_KEPT_BYTES) return Buffer.allocUnsafeSlow(bytes);
    if (this.#spare.byteLength < bytes)
      this.#spare = Buffer.allocUnsafeSlow(Math.min(MAX_KEPT_BYTES, bytes * 2));
    return this.#spare.subarray(0, bytes);
  }

  /** Copies the chunk's part of a started payload and returns where the chunk continues. */
  #fillPayload(payload: Buffer, chunk: Buffer, at: number, sink: (frame: Frame) => void): number {
    const taken = chunk.copy(payload, this.#payloadBytes, at);
    this.#payloadBytes += taken;
    if (this.#payloadBytes === payload.byteLength) {
      this.#payload = undefined;
      this.#headerBytes = 0;
      sink({ type: this.#header[4] as FrameType, stream: this.#header.readUInt32BE(5), payload });
    }
    return at + taken;
  }
}

function checkedType(type: number, length: number): FrameType {
  if (length > MAX_PAYLOAD_BYTES) {
    throw new ProtocolError(
      "payload_too_large",
      `a frame announces ${String(length)} bytes; at most ${String(MAX_PAYLOAD_BYTES)} are allowed`,
    );
  }
  switch (type) {
    case FrameType.hello:
    case FrameType.request:
    case FrameType.response:
    case FrameType.error:
    case FrameType.event:
      if (length < 2)
        throw new ProtocolError(
          "json_not_object",
          `a JSON frame of ${String(length)} bytes holds no object`,
        );
      return type;
    case FrameType.data:
      return type;
    case FrameType.output:
      if (length < OUTPUT_HEAD_BYTES) {
        throw new ProtocolError(
          "output_too_short",
          `an OUTPUT of ${String(length)} bytes has no room for its head`,
        );
      }
      return type;
    case FrameType.credit:
      if (length !== 4)
        throw new ProtocolError(
          "credit_not_4_bytes",
          `a CREDIT has ${String(length)} bytes instead of 4`,
        );
      return type;
    case FrameType.end:
    case FrameType.cancel:
      if (length !== 0) {
        throw new ProtocolError(
          "not_empty",
          `an ${type === FrameType.end ? "END" : "CANCEL"} frame carries ${String(length)} bytes`,
        );
      }
      return type;
    default:
      throw new ProtocolError("unknown_type", `a frame has the unknown type ${String(type)}`);
  }
}
