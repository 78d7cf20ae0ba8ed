import { describe, expect, test } from "vitest";
import { median, percentile, ratio } from "./statistics.ts";

describe("percentile()", () => {
  test("finds samples by their rank, in any order", () => {
    const samples = [50, 10, 40, 20, 30];
    expect(percentile(samples, 0)).toBe(10);
    expect(percentile(samples, 0.5)).toBe(30);
    expect(percentile(samples, 1)).toBe(50);
    expect(samples).toEqual([50, 10, 40, 20, 30]);
  });

  test("interpolates between two neighbours", () => {
    expect(median([1, 2])).toBe(1.5);
    expect(percentile([0, 100], 0.95)).toBeCloseTo(95);
  });

  test("sorts as numbers, not as text", () => {
    expect(median([9, 10, 100])).toBe(10);
  });

  test("is the sample itself if there is only one", () => {
    expect(percentile([7], 0.95)).toBe(7);
  });

  test("refuses an empty list and shares outside 0 to 1", () => {
    expect(() => percentile([], 0.5)).toThrow("no samples");
    expect(() => percentile([1], 1.5)).toThrow("1.5");
    expect(() => percentile([1], Number.NaN)).toThrow("NaN");
  });
});

describe("ratio()", () => {
  test("returns how many times the baseline a value is", () => {
    expect(ratio(50, 350)).toBeCloseTo(1 / 7);
  });

  test("refuses a baseline of zero", () => {
    expect(() => ratio(1, 0)).toThrow(RangeError);
    expect(() => ratio(1, Number.NaN)).toThrow(RangeError);
  });
});
