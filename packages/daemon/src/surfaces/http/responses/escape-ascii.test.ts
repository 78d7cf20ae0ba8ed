import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { escapeAscii } from "./escape-ascii.ts";

/** This many additional bytes are always enough. */
const SLACK_BYTES = 20;

function jsonOf(text: Buffer): string {
  return JSON.stringify(text.toString("latin1")).slice(1, -1);
}

/** Escapes into memory between other bytes, which must not change. */
function escaped(text: Buffer, room: number, start = 0): string | undefined {
  const target = Buffer.alloc(start + room + 8, "?");
  const end = escapeAscii(text, target, start, start + room);
  expect(target.toString("latin1", 0, start)).toBe("?".repeat(start));
  expect(target.toString("latin1", start + room)).toBe("?".repeat(8));
  return end === undefined ? undefined : target.toString("latin1", start, end);
}

describe("escapes of ASCII", () => {
  it("are those of JSON.stringify, at every position in memory", () => {
    fc.assert(
      fc.property(fc.array(fc.nat(127)), fc.nat(7), fc.nat(7), (codes, skipped, start) => {
        const text = Buffer.from([...Array<number>(skipped).fill(34), ...codes]).subarray(skipped);
        const json = jsonOf(text);
        expect(escaped(text, json.length + SLACK_BYTES, start)).toBe(json);
      }),
    );
  });

  it("are complete for each byte at each position of a word", () => {
    for (let byte = 0; byte < 128; byte++)
      for (let place = 0; place < 9; place++) {
        const text = Buffer.alloc(9, "x").fill(byte, place, place + 1);
        expect(escaped(text, 9 + 5 + SLACK_BYTES)).toBe(jsonOf(text));
      }
  });

  it("never exceed their space", () => {
    const anyByte = fc.oneof(fc.nat(127), fc.constant(7), fc.constant(120));
    fc.assert(
      fc.property(fc.array(anyByte, { maxLength: 40 }), fc.nat(120), (codes, room) => {
        const text = Buffer.from(codes);
        const json = jsonOf(text);
        const found = escaped(text, room);
        if (room >= json.length + SLACK_BYTES) expect(found).toBe(json);
        else expect([json, undefined]).toContain(found);
        if (room < json.length) expect(found).toBeUndefined();
      }),
    );
  });
});
