import { readFileSync } from "node:fs";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { FrameDecoder } from "./frame-decoder.ts";
import {
  decodeCredit,
  decodeJsonObject,
  decodeOutputHead,
  encodeCreditFrame,
  encodeFrame,
  encodeOutputFrame,
  FRAME_HEADER_BYTES,
  FrameType,
  MAX_PAYLOAD_BYTES,
  OUTPUT_HEAD_BYTES,
} from "./frames.ts";
import type { Frame } from "./frames.ts";
import { ProtocolError } from "./protocol-error.ts";

interface GoldenFrames {
  readonly valid: readonly {
    readonly name: string;
    readonly hex: string;
    readonly type: FrameType;
    readonly stream: number;
    readonly json?: object;
    readonly payload_hex?: string;
    readonly output?: { fd: 1 | 2; seq: number; offset: number; bytes_hex: string };
    readonly credit?: number;
  }[];
  readonly invalid: readonly {
    readonly name: string;
    readonly hex: string;
    readonly reason: string;
  }[];
}

const golden = JSON.parse(
  readFileSync(new URL("../fixtures/frames.json", import.meta.url), "utf8"),
) as GoldenFrames;
const JSON_TYPES: readonly number[] = [
  FrameType.hello,
  FrameType.request,
  FrameType.response,
  FrameType.error,
  FrameType.event,
];

/** Decodes a whole chunk list; JSON frames are parsed too, as every reader does. */
function decode(chunks: Iterable<Uint8Array>, decoder = new FrameDecoder()): Frame[] {
  const frames: Frame[] = [];
  for (const chunk of chunks) {
    decoder.push(chunk, (frame) => {
      if (JSON_TYPES.includes(frame.type)) decodeJsonObject(frame.payload);
      frames.push({ ...frame, payload: Buffer.from(frame.payload) });
    });
  }
  return frames;
}

function split(bytes: Buffer, cuts: readonly number[]): Buffer[] {
  const points = [
    ...new Set([0, ...cuts.map((cut) => cut % (bytes.byteLength + 1)), bytes.byteLength]),
  ].sort((a, b) => a - b);
  return points.slice(1).map((end, i) => bytes.subarray(points[i], end));
}

describe("golden frames", () => {
  it.each(golden.valid)(
    "decodes $name",
    ({ hex, type, stream, json, payload_hex, output, credit }) => {
      const [frame, ...others] = decode([Buffer.from(hex, "hex")]);
      expect(others).toEqual([]);
      if (frame === undefined) throw new Error("no frame was decoded");
      expect([frame.type, frame.stream]).toEqual([type, stream]);
      if (json !== undefined) expect(decodeJsonObject(frame.payload)).toEqual(json);
      if (payload_hex !== undefined) {
        expect(frame.payload.toString("hex")).toBe(payload_hex);
        expect(encodeFrame(type, stream, frame.payload).toString("hex")).toBe(hex);
      }
      if (output !== undefined) {
        const { bytes_hex, ...head } = output;
        expect(decodeOutputHead(frame.payload)).toEqual(head);
        expect(frame.payload.subarray(OUTPUT_HEAD_BYTES).toString("hex")).toBe(bytes_hex);
        expect(encodeOutputFrame(stream, head, Buffer.from(bytes_hex, "hex")).toString("hex")).toBe(
          hex,
        );
      }
      if (credit !== undefined) {
        expect(decodeCredit(frame.payload)).toBe(credit);
        expect(encodeCreditFrame(stream, credit).toString("hex")).toBe(hex);
      }
    },
  );

  it.each(golden.invalid)("refuses $name", ({ hex, reason }) => {
    expect(() => decode([Buffer.from(hex, "hex")])).toThrow(
      expect.objectContaining({ name: "ProtocolError", reason }),
    );
  });

  it("has at least one valid frame of every type and one invalid frame of every reason", () => {
    expect(new Set(golden.valid.map((f) => f.type))).toEqual(new Set(Object.values(FrameType)));
    expect(new Set(golden.invalid.map((f) => f.reason))).toEqual(
      new Set([
        "unknown_type",
        "payload_too_large",
        "json_not_object",
        "output_too_short",
        "credit_not_4_bytes",
        "not_empty",
      ]),
    );
  });
});

const anyFrame = fc.oneof(
  fc.record({
    type: fc.constantFrom(FrameType.data),
    stream: fc.nat(0xffff_ffff),
    payload: fc.uint8Array({ maxLength: 300 }),
  }),
  fc.record({
    type: fc.constantFrom(
      FrameType.request,
      FrameType.response,
      FrameType.event,
      FrameType.error,
      FrameType.hello,
    ),
    stream: fc.nat(0xffff_ffff),
    payload: fc
      .dictionary(fc.string(), fc.jsonValue())
      .map((json) => Buffer.from(JSON.stringify(json))),
  }),
  fc.record({
    type: fc.constantFrom(FrameType.end, FrameType.cancel),
    stream: fc.nat(0xffff_ffff),
    payload: fc.constant(Buffer.alloc(0)),
  }),
);

describe("FrameDecoder", () => {
  it("decodes the same frames however their bytes are split", () => {
    fc.assert(
      fc.property(
        fc.array(anyFrame, { maxLength: 20 }),
        fc.array(fc.nat(100_000), { maxLength: 40 }),
        (frames, cuts) => {
          const bytes = Buffer.concat(frames.map((f) => encodeFrame(f.type, f.stream, f.payload)));
          const decoded = decode(split(bytes, cuts));
          expect(decoded.map((f) => [f.type, f.stream, f.payload.toString("hex")])).toEqual(
            frames.map((f) => [f.type, f.stream, Buffer.from(f.payload).toString("hex")]),
          );
        },
      ),
    );
  });

  it("decodes arbitrary bytes to frames or a ProtocolError and holds no more than one frame", () => {
    fc.assert(
      fc.property(fc.array(fc.uint8Array({ maxLength: 64 }), { maxLength: 30 }), (chunks) => {
        const decoder = new FrameDecoder();
        try {
          decode(chunks, decoder);
        } catch (error) {
          expect(error).toBeInstanceOf(ProtocolError);
        }
        expect(decoder.bufferedBytes).toBeLessThanOrEqual(FRAME_HEADER_BYTES + MAX_PAYLOAD_BYTES);
      }),
      { numRuns: 1000 },
    );
  });

  it("refuses an oversize length from its header alone", () => {
    const decoder = new FrameDecoder();
    const header = Buffer.from("800000000600000001", "hex");
    expect(decode([header.subarray(0, 8)], decoder)).toEqual([]);
    expect(() => decode([header.subarray(8)], decoder)).toThrow(
      expect.objectContaining({ reason: "payload_too_large" }),
    );
    expect(decoder.bufferedBytes).toBeLessThanOrEqual(FRAME_HEADER_BYTES);
  });

  it("returns whole frames as views of the chunk that contains them", () => {
    const chunk = encodeFrame(FrameType.data, 1, Buffer.from("payload"));
    const views: Buffer[] = [];
    new FrameDecoder().push(chunk, (frame) => views.push(frame.payload));
    expect(views[0]?.buffer).toBe(chunk.buffer);
  });

  it("collects frames that span chunks in the same memory, until it is released", () => {
    const decoder = new FrameDecoder();
    const memories: unknown[] = [];
    const receive = (payloadBytes: number): void => {
      const frame = encodeFrame(FrameType.data, 1, Buffer.alloc(payloadBytes));
      for (const chunk of split(frame, [100]))
        decoder.push(chunk, ({ payload }) => memories.push(payload.buffer));
    };
    receive(10_000);
    receive(20_000);
    receive(500);
    decoder.letGo();
    receive(500);
    expect(new Set(memories.slice(0, 3)).size).toBe(1);
    expect(memories[3]).not.toBe(memories[2]);
  });

  it("accepts a payload of exactly the limit, one byte at a time at its edges", () => {
    const frame = encodeFrame(FrameType.data, 7, Buffer.alloc(MAX_PAYLOAD_BYTES, 0xab));
    const cuts = [1, 2, 3, 4, 5, 8, 9, 10, frame.byteLength - 1];
    const [decoded] = decode(split(frame, cuts));
    expect(decoded?.payload.equals(frame.subarray(FRAME_HEADER_BYTES))).toBe(true);
  });

  it("yields nothing more after it was stopped in the middle of a chunk", () => {
    const chunk = Buffer.concat([encodeFrame(FrameType.end, 1), encodeFrame(FrameType.end, 2)]);
    const decoder = new FrameDecoder();
    const seen: number[] = [];
    decoder.push(chunk, (frame) => {
      seen.push(frame.stream);
      decoder.stop();
    });
    decoder.push(chunk, (frame) => seen.push(frame.stream));
    expect(seen).toEqual([1]);
  });

  it("stays failed after a violation", () => {
    const decoder = new FrameDecoder();
    expect(() => decode([Buffer.from("000000000000000001", "hex")], decoder)).toThrow(
      ProtocolError,
    );
    expect(decode([encodeFrame(FrameType.end, 1)], decoder)).toEqual([]);
  });
});
