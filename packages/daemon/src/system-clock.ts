/** The machine's own clocks. */
import { readFileSync } from "node:fs";
import type { Clock } from "./ports/clock.ts";

export function systemClock(): Clock {
  const bootId = readFileSync("/proc/sys/kernel/random/boot_id", "utf8").trim();
  return {
    bootId,
    nowMs: () => Date.now(),
    // CLOCK_MONOTONIC counts from boot and is the same in every process.
    monotonicMs: () => Number(process.hrtime.bigint() / 1000n) / 1000,
  };
}
