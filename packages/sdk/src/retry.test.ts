import { describe, expect, test } from "vitest";
import { parseRetryAfter, pauseMs } from "./retry.ts";

const policy = { maxRetries: 2, retryDelayMs: 250 };

describe("pauseMs()", () => {
  test.each([
    [0, 125, 250],
    [1, 250, 500],
    [2, 500, 1000],
    [30, 4000, 8000],
  ])("after %i failures is between %i and %i, and varies", (failures, low, high) => {
    const pauses = Array.from({ length: 50 }, () => pauseMs(failures, policy, undefined));
    expect(Math.min(...pauses)).toBeGreaterThanOrEqual(low);
    expect(Math.max(...pauses)).toBeLessThanOrEqual(high);
    expect(new Set(pauses).size).toBeGreaterThan(1);
  });

  test("is at least what the daemon asked for", () => {
    expect(pauseMs(0, policy, 5000)).toBe(5000);
    expect(pauseMs(0, policy, 0)).toBeGreaterThanOrEqual(125);
  });
});

describe("parseRetryAfter()", () => {
  const nowMs = Date.parse("2026-01-31T12:00:00Z");

  test.each([
    ["3", 3000],
    [" 0 ", 0],
    ["Sat, 31 Jan 2026 12:00:10 GMT", 10_000],
    ["Sat, 31 Jan 2026 11:00:00 GMT", 0],
    ["soon", undefined],
    ["", undefined],
    [null, undefined],
  ])("reads %j as %j", (value, expected) => {
    expect(parseRetryAfter(value, nowMs)).toBe(expected);
  });
});
