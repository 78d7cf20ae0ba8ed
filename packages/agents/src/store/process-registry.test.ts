/** Live, silent, stalled and stopped processes. */
import type { DatabaseSync } from "node:sqlite";
import { afterEach, beforeEach, expect, test } from "vitest";
import { openDatabase } from "./database.ts";
import { PROCESS_MIGRATIONS, ProcessRegistry } from "./process-registry.ts";

let database: DatabaseSync;
let nowMs: number;
beforeEach(() => {
  database = openDatabase(":memory:", PROCESS_MIGRATIONS);
  nowMs = 1_000_000;
});
afterEach(() => database.close());

const registry = () => new ProcessRegistry(database, { deadAfterMs: 15_000, now: () => nowMs });

test("a process is alive until it has been silent for too long", () => {
  const [one, other] = [registry(), registry()];
  nowMs += 14_000;
  one.beat();
  expect(new Set(one.alive())).toEqual(new Set([one.id, other.id]));
  nowMs += 2_000;
  expect(one.alive()).toEqual([one.id]);
});

test("a process that reports its end is dead at once", () => {
  const [one, other] = [registry(), registry()];
  other.stop();
  expect(one.alive()).toEqual([one.id]);
});

test("a process of another boot is dead, whatever its time", () => {
  const one = registry();
  database.exec("INSERT INTO processes VALUES ('prc_old', 'another-boot', 9e15)");
  expect(one.alive()).toEqual([one.id]);
});

test("a process that was stalled is dead for others and alive for itself, and learns of it", () => {
  const [one, other] = [registry(), registry()];
  const seen: (readonly string[])[] = [];
  one.onStall(() => seen.push(other.alive()));
  nowMs += 14_000;
  one.beat();
  expect(seen).toEqual([]);
  nowMs += 15_000;
  other.beat();
  expect(other.alive()).toEqual([other.id]);
  expect(one.alive()).toEqual([one.id, other.id]);
  one.beat();
  // Other processes see it alive again before it looks for the runs that they took.
  expect(seen).toEqual([[other.id, one.id]]);
});

test("the heartbeat is written automatically once started", async () => {
  const one = new ProcessRegistry(database, { beatIntervalMs: 5, now: () => nowMs });
  one.start();
  nowMs += 60_000;
  const beats = database.prepare("SELECT beat_ms FROM processes");
  while (beats.get()?.["beat_ms"] !== nowMs) await new Promise((resolve) => setTimeout(resolve, 5));
  one.stop();
  expect(beats.all()).toEqual([]);
});
