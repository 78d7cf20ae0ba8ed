import { describe, expect, it } from "vitest";
import { bytes, duration, percent, shortId, since, until } from "./format.ts";

describe("formatting for people", () => {
  it("uses the largest unit that fits for sizes", () => {
    expect([0, 1023, 1024, 1536, 150 * 2 ** 20, 5 * 2 ** 40].map(bytes)).toEqual([
      "0 B",
      "1023 B",
      "1.0 KB",
      "1.5 KB",
      "150 MB",
      "5.0 TB",
    ]);
  });

  it("uses the two largest units for durations", () => {
    const minute = 60_000;
    expect([12, 59_999, 61_000, 60 * minute, 192 * minute, 25 * 60 * minute].map(duration)).toEqual(
      ["12 ms", "59 s", "1 min", "1 h", "3 h 12 min", "1 d 1 h"],
    );
  });

  it("shows times before and after now, never negative", () => {
    const now = Date.parse("2026-01-01T00:00:10Z");
    expect(since("2026-01-01T00:00:00Z", now)).toBe("10 s");
    expect(since("2026-01-01T00:00:11Z", now)).toBe("0 s");
    expect(until("2026-01-01T00:01:10Z", now)).toBe("1 min");
    expect(until("2026-01-01T00:00:00Z", now)).toBe("now");
  });

  it("shows shares with a digit if it matters, and distinguishable ids", () => {
    expect([percent(0.014), percent(0.5)]).toEqual(["1.4 %", "50 %"]);
    expect(shortId("ses_0123456789abcdef")).toBe("ses_01234567…");
  });
});
