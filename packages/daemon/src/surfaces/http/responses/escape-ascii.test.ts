import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { escapeAscii, MAX_ESCAPED_BYTES } from "./escape-ascii.ts";

function escaped(text: Uint8Array, start = 0): string {
  const target = Buffer.alloc(start + MAX_ESCAPED_BYTES * text.length, "?");
  const end = escapeAscii(text, target, start);
  expect(target.toString("latin1", 0, start)).toBe("?".repeat(start));
  return target.toString("latin1", start, end);
}

describe("escapes of ASCII", () => {
  it("are those of JSON.stringify, wherever the text lies in memory", () => {
    fc.assert(
      fc.property(fc.array(fc.nat(127)), fc.nat(7), fc.nat(7), (codes, skipped, start) => {
        const text = Buffer.from([...Array<number>(skipped).fill(34), ...codes]).subarray(skipped);
        expect(escaped(text, start)).toBe(JSON.stringify(text.toString("latin1")).slice(1, -1));
      }),
    );
  });

  it("are complete for each byte at each place of a word", () => {
    for (let byte = 0; byte < 128; byte++)
      for (let place = 0; place < 9; place++) {
        const text = Buffer.alloc(9, "x").fill(byte, place, place + 1);
        expect(escaped(text)).toBe(JSON.stringify(text.toString("latin1")).slice(1, -1));
      }
  });
});
