import { describe, expect, it } from "vitest";
import {
  decodeJsonObject,
  decodeOutputHead,
  encodeCreditFrame,
  encodeFrame,
  encodeFrameHeader,
  encodeOutputFrame,
  FrameType,
  MAX_PAYLOAD_BYTES,
} from "./frames.ts";
import { ProtocolError } from "./protocol-error.ts";

describe("encoding", () => {
  it("refuses a payload over the limit and says to split it", () => {
    expect(() => encodeFrame(FrameType.data, 1, Buffer.alloc(MAX_PAYLOAD_BYTES + 1))).toThrow(
      /split it/,
    );
    expect(() => encodeFrameHeader(FrameType.data, 1, MAX_PAYLOAD_BYTES + 1)).toThrow(RangeError);
  });

  it("refuses stream ids, credits and offsets that do not fit", () => {
    for (const stream of [-1, 1.5, 2 ** 32, Number.NaN]) {
      expect(() => encodeFrame(FrameType.end, stream)).toThrow(RangeError);
    }
    for (const credit of [0, -1, 2 ** 32, 0.5])
      expect(() => encodeCreditFrame(1, credit)).toThrow(RangeError);
    expect(() => encodeOutputFrame(1, { fd: 1, seq: 0, offset: 2 ** 53 }, Buffer.alloc(0))).toThrow(
      RangeError,
    );
  });
});

describe("decodeOutputHead", () => {
  it("refuses a descriptor other than 1 and 2", () => {
    const payload = Buffer.alloc(17);
    for (const fd of [0, 3, 255]) {
      payload[0] = fd;
      expect(() => decodeOutputHead(payload)).toThrow(
        expect.objectContaining({ reason: "bad_output_head" }),
      );
    }
  });

  it("refuses a number that a double cannot hold exactly", () => {
    const payload = Buffer.alloc(17);
    payload[0] = 1;
    payload.writeBigUInt64BE(2n ** 53n, 9);
    expect(() => decodeOutputHead(payload)).toThrow(ProtocolError);
  });
});

describe("decodeJsonObject", () => {
  it("survives nesting as deep as a frame allows", () => {
    const depth = 500_000;
    const bomb = Buffer.from(`{"a":${"[".repeat(depth)}${"]".repeat(depth)}}`);
    expect(Object.keys(decodeJsonObject(bomb))).toEqual(["a"]);
  });

  it("does not let a __proto__ key change the prototype", () => {
    const parsed = decodeJsonObject(Buffer.from('{"__proto__":{"polluted":true}}'));
    expect((parsed as { polluted?: boolean }).polluted).toBeUndefined();
    expect(({} as { polluted?: boolean }).polluted).toBeUndefined();
  });
});
