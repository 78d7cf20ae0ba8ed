/** The store's time: it continues over restarts and reboots, and setting a clock does not move it. */
import { expect, it } from "vitest";
import type { SessionStore } from "../ports.ts";
import { FIRST_READING } from "./store-ownership.ts";
import type { StoreFixtureOf } from "./store-fixture.ts";
import { FENCE } from "./store-rows.ts";

const HOUR_MS = 3_600_000;
const YEAR_MS = 365 * 24 * HOUR_MS;
const JUMPS = [HOUR_MS, -HOUR_MS, YEAR_MS, -YEAR_MS];

export function storeTimeSuite(fixture: StoreFixtureOf): void {
  const store = (): SessionStore => fixture().store;
  const { bootId, monotonicMs, wallMs } = FIRST_READING;

  /** The first daemon records the time, shortly before it ends. */
  async function lastBeat(storeMs: number, reading = FIRST_READING): Promise<void> {
    fixture().setWallMs(reading.wallMs);
    expect(await store().beat(FENCE, storeMs, reading)).toBe(storeMs);
    await store().leave(FENCE);
  }

  async function joinAt(reading: typeof FIRST_READING): Promise<number> {
    fixture().setWallMs(reading.wallMs);
    return (await store().join(undefined, reading)).storeMs;
  }

  it("never goes back, whatever a daemon reports", async () => {
    expect(await store().beat(FENCE, 5000, FIRST_READING)).toBe(5000);
    expect(await store().beat(FENCE, 4000, FIRST_READING)).toBe(5000);
  });

  it.each(JUMPS)(
    "counts the clock of the boot after a restart, with the clock set by %i ms",
    async (jump) => {
      await lastBeat(5000);
      const later = { bootId, monotonicMs: monotonicMs + 700, wallMs: wallMs + 700 + jump };
      expect(await joinAt(later)).toBe(5700);
    },
  );

  it.each(JUMPS)("ignores a jump of %i ms from before the reboot", async (jump) => {
    const jumped = { bootId, monotonicMs: monotonicMs + 10, wallMs: wallMs + jump };
    await lastBeat(5000, jumped);
    const booted = { bootId: "boot-2", monotonicMs: 50, wallMs: jumped.wallMs + 60_000 };
    expect(await joinAt(booted)).toBe(65_000);
  });

  it("counts the time during which the machine was off, by the wall clock", async () => {
    await lastBeat(5000);
    const booted = { bootId: "boot-2", monotonicMs: 50, wallMs: wallMs + 2 * HOUR_MS };
    expect(await joinAt(booted)).toBe(5000 + 2 * HOUR_MS);
  });

  it("stands still, and does not go back, if the clock was set back while the machine was off", async () => {
    await lastBeat(5000);
    const booted = { bootId: "boot-2", monotonicMs: 50, wallMs: wallMs - YEAR_MS };
    expect(await joinAt(booted)).toBe(5000);
  });

  it("survives reopening the store", async () => {
    await lastBeat(5000);
    const again = await fixture().reopen();
    fixture().setWallMs(wallMs);
    const { storeMs } = await again.join(undefined, { bootId, monotonicMs: 1500, wallMs });
    expect(storeMs).toBe(5500);
  });
}
