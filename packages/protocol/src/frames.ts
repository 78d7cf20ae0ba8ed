/** The frames of the wire protocol between daemon and runner: types, limits and encoding. */
import { ProtocolError } from "./protocol-error.ts";

/** Bytes of a frame before its payload: length (4), type (1), stream id (4). */
export const FRAME_HEADER_BYTES = 9;
export const MAX_PAYLOAD_BYTES = 1_048_576;
/** Bytes of an OUTPUT payload before the output itself: descriptor (1), sequence number (8), offset (8). */
export const OUTPUT_HEAD_BYTES = 17;
/** The initial credit of each direction of each stream. */
export const INITIAL_CREDIT_BYTES = 262_144;
export const PROTOCOL_VERSION = 1;
const MAX_STREAM_ID = 0xffff_ffff;

export const FrameType = {
  hello: 1,
  request: 2,
  response: 3,
  error: 4,
  event: 5,
  data: 6,
  output: 7,
  end: 8,
  credit: 9,
  cancel: 10,
} as const;
export type FrameType = (typeof FrameType)[keyof typeof FrameType];

/** One frame. The payload is in reused memory: copy it to keep it. */
export interface Frame {
  readonly type: FrameType;
  readonly stream: number;
  readonly payload: Buffer;
}

const EMPTY = Buffer.alloc(0);
const TWO_TO_32 = 0x1_0000_0000;

/** The nine bytes before a payload of that length. */
export function encodeFrameHeader(type: FrameType, stream: number, payloadBytes: number): Buffer {
  checkHeader(type, stream, payloadBytes);
  const header = Buffer.allocUnsafe(FRAME_HEADER_BYTES);
  writeHeader(header, type, stream, payloadBytes);
  return header;
}

/**
 * A complete frame in one buffer. For large payloads, write header and payload separately to avoid
 * the copy.
 */
export function encodeFrame(type: FrameType, stream: number, payload: Uint8Array = EMPTY): Buffer {
  checkHeader(type, stream, payload.byteLength);
  const frame = Buffer.allocUnsafe(FRAME_HEADER_BYTES + payload.byteLength);
  writeHeader(frame, type, stream, payload.byteLength);
  frame.set(payload, FRAME_HEADER_BYTES);
  return frame;
}

export function encodeJsonFrame(type: FrameType, stream: number, json: object): Buffer {
  return encodeFrame(type, stream, Buffer.from(JSON.stringify(json)));
}

export function encodeCreditFrame(stream: number, bytes: number): Buffer {
  if (!Number.isInteger(bytes) || bytes < 1 || bytes > 0xffff_ffff) {
    throw new RangeError(`a credit must be an integer from 1 to 4294967295, not ${String(bytes)}`);
  }
  const frame = Buffer.allocUnsafe(FRAME_HEADER_BYTES + 4);
  writeHeader(frame, FrameType.credit, stream, 4);
  frame.writeUInt32BE(bytes, FRAME_HEADER_BYTES);
  return frame;
}

interface OutputHead {
  /** 1 is stdout, 2 is stderr. */
  readonly fd: 1 | 2;
  readonly seq: number;
  /** Offset of the first byte in the merged output. */
  readonly offset: number;
}

export function encodeOutputFrame(stream: number, head: OutputHead, bytes: Uint8Array): Buffer {
  const payloadBytes = OUTPUT_HEAD_BYTES + bytes.byteLength;
  checkHeader(FrameType.output, stream, payloadBytes);
  const frame = Buffer.allocUnsafe(FRAME_HEADER_BYTES + payloadBytes);
  writeHeader(frame, FrameType.output, stream, payloadBytes);
  frame[FRAME_HEADER_BYTES] = head.fd;
  writeUint64(frame, head.seq, FRAME_HEADER_BYTES + 1);
  writeUint64(frame, head.offset, FRAME_HEADER_BYTES + 9);
  frame.set(bytes, FRAME_HEADER_BYTES + OUTPUT_HEAD_BYTES);
  return frame;
}

/** Reads the head of an OUTPUT payload; the output itself begins at `OUTPUT_HEAD_BYTES`. */
export function decodeOutputHead(payload: Buffer): OutputHead {
  if (payload.byteLength < OUTPUT_HEAD_BYTES) {
    throw new ProtocolError(
      "output_too_short",
      `an OUTPUT of ${String(payload.byteLength)} bytes has no room for its head`,
    );
  }
  const fd = payload[0];
  if (fd !== 1 && fd !== 2) {
    throw new ProtocolError(
      "bad_output_head",
      `an OUTPUT names descriptor ${String(fd)}; only 1 and 2 exist`,
    );
  }
  return { fd, seq: readUint64(payload, 1), offset: readUint64(payload, 9) };
}

export function decodeCredit(payload: Buffer): number {
  if (payload.byteLength !== 4) {
    throw new ProtocolError(
      "credit_not_4_bytes",
      `a CREDIT has ${String(payload.byteLength)} bytes instead of 4`,
    );
  }
  return payload.readUInt32BE(0);
}

const utf8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/** Parses the payload of a JSON frame, which must be an object. */
export function decodeJsonObject(payload: Uint8Array): Record<string, unknown> {
  let value: unknown;
  try {
    value = JSON.parse(utf8.decode(payload));
  } catch (cause) {
    throw new ProtocolError("json_not_object", "a JSON frame contains invalid JSON", {
      cause,
    });
  }
  if (typeof value !== "object" || value === null || Array.isArray(value)) {
    throw new ProtocolError(
      "json_not_object",
      "a JSON frame contains something other than an object",
    );
  }
  return value as Record<string, unknown>;
}

function checkHeader(type: FrameType, stream: number, payloadBytes: number): void {
  if (payloadBytes > MAX_PAYLOAD_BYTES) {
    throw new RangeError(
      `a frame of type ${String(type)} has a payload of ${String(payloadBytes)} bytes; at most ${String(MAX_PAYLOAD_BYTES)} fit, so split it`,
    );
  }
  if (!Number.isInteger(stream) || stream < 0 || stream > MAX_STREAM_ID) {
    throw new RangeError(
      `a stream id must be an integer from 0 to ${String(MAX_STREAM_ID)}, not ${String(stream)}`,
    );
  }
}

function writeHeader(target: Buffer, type: FrameType, stream: number, payloadBytes: number): void {
  target.writeUInt32BE(payloadBytes, 0);
  target[4] = type;
  target.writeUInt32BE(stream, 5);
}

function writeUint64(target: Buffer, value: number, at: number): void {
  if (!Number.isSafeInteger(value) || value < 0) {
    throw new RangeError(`${String(value)} is not an unsigned integer that can be sent exactly`);
  }
  target.writeUInt32BE(Math.floor(value / TWO_TO_32), at);
  target.writeUInt32BE(value % TWO_TO_32, at + 4);
}

/** Two 32-bit reads instead of a BigInt: this runs once per chunk of output. */
function readUint64(source: Buffer, at: number): number {
  const value = source.readUInt32BE(at) * TWO_TO_32 + source.readUInt32BE(at + 4);
  if (!Number.isSafeInteger(value)) {
    throw new ProtocolError(
      "bad_output_head",
      "an OUTPUT has a sequence number or offset beyond 2^53",
    );
  }
  return value;
}
