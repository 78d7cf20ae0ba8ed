import { describe, expect, it } from "vitest";
import {
  formatBytes,
  formatDuration,
  formatMoment,
  parseDurationMs,
  parseMebibytes,
} from "./units.ts";

describe("formatBytes()", () => {
  it.each([
    [0, "0 B"],
    [1023, "1023 B"],
    [1536, "1.5 KiB"],
    [200 * 1024 ** 2, "200 MiB"],
    [3 * 1024 ** 5, "3072 TiB"],
  ])("writes %d as %s", (bytes, text) => {
    expect(formatBytes(bytes)).toBe(text);
  });
});

describe("formatDuration()", () => {
  it.each([
    [12.4, "12ms"],
    [1500, "1.5s"],
    [59_000, "59s"],
    [125_000, "2m5s"],
    [3_720_000, "1h2m"],
    [72 * 3_600_000, "3d"],
  ])("writes %d ms as %s", (ms, text) => {
    expect(formatDuration(ms)).toBe(text);
  });
});

describe("formatMoment()", () => {
  it("distinguishes the past from the future", () => {
    const nowMs = Date.parse("2026-01-01T00:10:00.000Z");
    expect(formatMoment("2026-01-01T00:00:00.000Z", nowMs)).toBe("10m0s ago");
    expect(formatMoment("2026-01-01T00:40:00.000Z", nowMs)).toBe("in 30m0s");
  });
});

describe("parseDurationMs()", () => {
  it.each([
    ["30", 30_000],
    ["1.5s", 1500],
    ["500ms", 500],
    ["5m", 300_000],
    ["2h", 7_200_000],
    ["0", 0],
  ])("reads %s as %d ms", (text, ms) => {
    expect(parseDurationMs(text)).toBe(ms);
  });

  it.each(["", "-1", "5 m", "1d", "s", "1e3"])("refuses %j", (text) => {
    expect(() => parseDurationMs(text)).toThrow(/30s/);
  });
});

describe("parseMebibytes()", () => {
  it.each([
    ["512", 512],
    ["512m", 512],
    ["2g", 2048],
    ["1.5GiB", 1536],
    ["1T", 1_048_576],
  ])("reads %s as %d MiB", (text, mebibytes) => {
    expect(parseMebibytes(text)).toBe(mebibytes);
  });

  it.each(["", "0", "-1", "2x", "0.3m"])("refuses %j", (text) => {
    expect(() => parseMebibytes(text)).toThrow(/512m/);
  });
});
