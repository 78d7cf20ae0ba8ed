/**
 * Events are numbered without gaps, replayed from any point and followed, also across processes.
 */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { DatabaseSync } from "node:sqlite";
import { afterEach, beforeEach, expect, test } from "vitest";
import { openDatabase } from "./database.ts";
import { EVENT_MIGRATIONS, EventLog } from "./event-log.ts";
import type { RunEvent } from "./event-log.ts";

let directory: string;
let database: DatabaseSync;
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), "sandkasten-events-"));
  database = openDatabase(join(directory, "agents.db"), EVENT_MIGRATIONS);
});
afterEach(async () => {
  database.close();
  await rm(directory, { recursive: true, force: true });
});

async function collect(events: AsyncIterable<RunEvent>, count: number): Promise<number[]> {
  const seen: number[] = [];
  for await (const { seq } of events) {
    seen.push(seq);
    if (seen.length === count) break;
  }
  return seen;
}

test("events of each run are numbered from 1, and are read back unchanged", () => {
  const log = new EventLog(database);
  log.append("a", "text", { text: "one" });
  log.append("b", "text", { text: "other" });
  const second = log.append("a", "text", { text: "two" });
  expect(second).toMatchObject({ seq: 2, type: "text", data: { text: "two" } });
  expect(log.read("a", 0, 10)).toMatchObject([
    { seq: 1, data: { text: "one" } },
    { seq: 2, data: { text: "two" } },
  ]);
  expect(log.read("a", 1, 10)).toEqual([second]);
  expect(log.read("a", 0, 1)).toHaveLength(1);
  expect(log.read("nothing", 0, 10)).toEqual([]);
});

test("a follower sees past and then future events, each once", async () => {
  const log = new EventLog(database, { pollIntervalMs: 60_000 });
  for (let count = 0; count < 250; count++) log.append("a", "text", { count });
  const seen = collect(log.follow("a", 100, new AbortController().signal), 160);
  await new Promise((resolve) => setImmediate(resolve));
  for (let count = 0; count < 10; count++) log.append("a", "text", { count });
  expect(await seen).toEqual(Array.from({ length: 160 }, (_, index) => 101 + index));
});

test("a follower sees events that another process appends", async () => {
  using other = openDatabase(join(directory, "agents.db"), EVENT_MIGRATIONS);
  const seen = collect(
    new EventLog(database, { pollIntervalMs: 5 }).follow("a", 0, new AbortController().signal),
    2,
  );
  const writer = new EventLog(other);
  writer.append("a", "text", {});
  await new Promise((resolve) => setTimeout(resolve, 20));
  writer.append("a", "text", {});
  expect(await seen).toEqual([1, 2]);
});

test("following ends when the run has ended and everything was seen, and when the signal fires", async () => {
  const log = new EventLog(database, { pollIntervalMs: 5 });
  log.append("a", "run_ended", {});
  let over = false;
  const ended = collect(
    log.follow("a", 0, new AbortController().signal, () => over),
    99,
  );
  log.append("a", "late", {});
  over = true;
  expect(await ended).toEqual([1, 2]);

  const stop = new AbortController();
  const stopped = collect(log.follow("a", 2, stop.signal), 99);
  stop.abort();
  expect(await stopped).toEqual([]);
});

test("two processes that append to one run never share a number", () => {
  using other = openDatabase(join(directory, "agents.db"), EVENT_MIGRATIONS);
  const [one, two] = [new EventLog(database), new EventLog(other)];
  const seqs = Array.from({ length: 100 }, (_, index) =>
    (index % 3 === 0 ? one : two).append("a", "text", {}),
  ).map(({ seq }) => seq);
  expect(seqs).toEqual(Array.from({ length: 100 }, (_, index) => index + 1));
});
