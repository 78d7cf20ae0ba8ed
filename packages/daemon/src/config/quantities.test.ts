import { describe, expect, it } from "vitest";
import { durationMs, sizeBytes } from "./quantities.ts";

describe("durationMs()", () => {
  it.each([
    ["30m", 1_800_000],
    ["4h", 14_400_000],
    ["1h30m15s", 5_415_000],
    ["1.1h", 3_960_000],
    ["250ms", 250],
    ["1500us", 1.5],
    ["0s", 0],
  ])("reads %s", (text, expected) => {
    expect(durationMs(text)).toBe(expected);
  });

  it.each(["", "30", "m", "30 m", "-1s", "1d", "1h30", "1e3s", "30M"])("refuses %j", (text) => {
    expect(durationMs(text)).toBeUndefined();
  });
});

describe("sizeBytes()", () => {
  it.each([
    ["8MiB", 8_388_608],
    ["1.5KiB", 1536],
    ["2 GiB", 2_147_483_648],
    ["1TiB", 1_099_511_627_776],
    ["7B", 7],
  ])("reads %s", (text, expected) => {
    expect(sizeBytes(text)).toBe(expected);
  });

  it.each(["", "8", "8MB", "8M", "MiB", "-1KiB", "8mib"])("refuses %j", (text) => {
    expect(sizeBytes(text)).toBeUndefined();
  });
});
