import { describe, expect, test } from "vitest";
import { patternsExcept } from "./masked-patterns.ts";

function matches(patterns: ReturnType<typeof patternsExcept>, number: number): number {
  return patterns.filter(({ mask, value }) => (number & mask) >>> 0 === value).length;
}

describe("patternsExcept()", () => {
  test.each([[[0]], [[255]], [[0x12, 0x1c]], [[1, 2, 10, 16]], [[]], [[0, 1, 254, 255]]])(
    "covers every 8-bit number once, except %j",
    (excluded: number[]) => {
      const patterns = patternsExcept(excluded, { high: 7, low: 0 });
      for (let number = 0; number < 256; number++) {
        expect([number, matches(patterns, number)]).toEqual([
          number,
          excluded.includes(number) ? 0 : 1,
        ]);
      }
    },
  );

  test("ignores bits outside the given ones", () => {
    const patterns = patternsExcept([0o010000], { high: 15, low: 12 });
    expect(patterns.every(({ mask }) => (mask & ~0o170000) === 0)).toBe(true);
    expect(matches(patterns, 0o010644)).toBe(0);
    expect(matches(patterns, 0o020644)).toBe(1);
  });

  test("includes the highest bit of 32", () => {
    const patterns = patternsExcept([0], { high: 31, low: 0 });
    expect(matches(patterns, 0x8000_0000)).toBe(1);
    expect(matches(patterns, 0xffff_ffff)).toBe(1);
    expect(matches(patterns, 0)).toBe(0);
  });
});
