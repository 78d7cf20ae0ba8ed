import { expect, test } from "vitest";
import { parseSeed, seedLine } from "./test-run.ts";

test("parseSeed() takes whole numbers that the generator can start from", () => {
  expect([parseSeed("1"), parseSeed("2147483647")]).toEqual([1, 2_147_483_647]);
});

test.for(["0", "-1", "1.5", "2147483648", "1e3", "abc", " 7"])("parseSeed() refuses %j", (text) => {
  expect(() => parseSeed(text)).toThrow(`Invalid seed "${text}"`);
});

test("parseSeed() draws a new seed for each run without one", () => {
  const drawn = new Set(Array.from({ length: 20 }, () => parseSeed(undefined)));
  expect(drawn.size).toBeGreaterThan(15);
  for (const seed of drawn) expect(parseSeed(String(seed))).toBe(seed);
});

test("seedLine() says how to repeat the run", () => {
  expect(seedLine(42)).toBe("seed 42 (repeat this run with --seed 42 or TEST_SEED=42)");
});
