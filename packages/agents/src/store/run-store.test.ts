/** Runs of several processes in one database, including one that an earlier version wrote. */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { openDatabase } from "./database.ts";
import { EVENT_MIGRATIONS, EventLog } from "./event-log.ts";
import { PROCESS_MIGRATIONS } from "./process-registry.ts";
import { RUN_MIGRATIONS, RunStore } from "./run-store.ts";
import type { NewRun } from "./run-store.ts";

let directory: string;
let path: string;
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), "sandkasten-runs-"));
  path = join(directory, "agents.db");
});
afterEach(async () => await rm(directory, { recursive: true, force: true }));

const ALL = [...EVENT_MIGRATIONS, ...PROCESS_MIGRATIONS, ...RUN_MIGRATIONS];
const newRun = (runId: string, processId = "one"): NewRun => ({
  runId,
  agentName: "helper",
  model: "a/b",
  task: "Help",
  input: { a: 1 },
  workflowRunId: undefined,
  workflowStepId: undefined,
  parentRunId: undefined,
  processId,
});

test("a run changes from queued to running to its end, and keeps its input", () => {
  using database = openDatabase(path, ALL);
  const runs = new RunStore(database);
  expect(runs.create(newRun("r1"))).toBe(true);
  expect(runs.get("r1")).toMatchObject({ status: "queued", task: "Help", input: { a: 1 } });
  expect(runs.start("r1", "one")).toBe(true);
  runs.progress("r1", "one", 3, { inputTokens: 5, outputTokens: 7 });
  expect(runs.end("r1", "one", { status: "succeeded", text: "t", output: [1] })).toBe(true);
  expect(runs.get("r1")).toMatchObject({
    status: "succeeded",
    text: "t",
    output: [1],
    error: undefined,
    steps: 3,
    usage: { inputTokens: 5, outputTokens: 7 },
  });
  expect(runs.end("r1", "one", { status: "failed" })).toBe(false);
});

test("an id is used once", () => {
  using database = openDatabase(path, ALL);
  const runs = new RunStore(database);
  expect([runs.create(newRun("r1")), runs.create(newRun("r1", "two"))]).toEqual([true, false]);
  expect(runs.get("r1")?.processId).toBe("one");
});

test("runs of dead processes are failed once, and their old process can no longer end them", () => {
  using database = openDatabase(path, ALL);
  using other = openDatabase(path, ALL);
  const [runs, others] = [new RunStore(database), new RunStore(other)];
  runs.create(newRun("r1", "dead"));
  runs.start("r1", "dead");
  runs.create(newRun("r2", "alive"));
  const error = { code: "PROCESS_ENDED", message: "gone" };
  expect(others.failAbandoned(() => ["alive"], error)).toEqual(["r1"]);
  expect(runs.failAbandoned(() => ["alive"], error)).toEqual([]);
  expect(runs.end("r1", "dead", { status: "succeeded" })).toBe(false);
  expect(runs.get("r1")).toMatchObject({ status: "failed", error });
  expect(runs.get("r2")?.status).toBe("queued");
});

test("a live process cannot change a run of another", () => {
  using database = openDatabase(path, ALL);
  const runs = new RunStore(database);
  runs.create(newRun("r1", "one"));
  expect([runs.start("r1", "two"), runs.end("r1", "two", { status: "failed" })]).toEqual([
    false,
    false,
  ]);
  expect(runs.start("r1", "one")).toBe(true);
  runs.progress("r1", "two", 9, { inputTokens: 9, outputTokens: 9 });
  expect(runs.end("r1", "two", { status: "succeeded", text: "stolen" })).toBe(false);
  expect(runs.get("r1")).toMatchObject({ status: "running", steps: 0, text: undefined });
});

test("a request to cancel reaches the process of the run, and not a run that has ended", () => {
  using database = openDatabase(path, ALL);
  const runs = new RunStore(database);
  runs.create(newRun("r1"));
  expect(runs.requestCancel("r1")).toBe(true);
  expect([runs.cancelRequests("one"), runs.cancelRequests("two")]).toEqual([["r1"], []]);
  runs.end("r1", "one", { status: "cancelled" });
  expect([runs.requestCancel("r1"), runs.cancelRequests("one")]).toEqual([false, []]);
});

test("a database of the previous version keeps its events and gets the tables of runs", () => {
  {
    using older = openDatabase(path, EVENT_MIGRATIONS);
    new EventLog(older).append("r1", "run_started", { agent_name: "helper" });
  }
  using newer = openDatabase(path, ALL);
  expect(new EventLog(newer).read("r1", 0, 10)).toHaveLength(1);
  expect(new RunStore(newer).create(newRun("r1"))).toBe(true);
});

test("old runs are deleted with their events; active and younger ones and those of workflows stay", () => {
  using database = openDatabase(path, ALL);
  const [runs, events] = [new RunStore(database), new EventLog(database)];
  for (const id of ["old", "young", "working"]) {
    runs.create(newRun(id));
    events.append(id, "run_started", {});
  }
  runs.create({ ...newRun("step"), workflowRunId: "wfr_1" });
  for (const id of ["old", "young", "step"]) runs.end(id, "one", { status: "succeeded" });
  database.exec(
    "UPDATE agent_runs SET ended_at = '2020-01-01T00:00:00.000Z' WHERE run_id IN ('old', 'step')",
  );
  expect(runs.prune(new Date("2021-01-01"))).toBe(1);
  expect(["old", "young", "working", "step"].map((id) => runs.get(id) !== undefined)).toEqual([
    false,
    true,
    true,
    true,
  ]);
  expect(["old", "young"].map((id) => events.read(id, 0, 9).length)).toEqual([0, 1]);
});

test("values that are not text are read back unchanged", () => {
  using database = openDatabase(path, ALL);
  const runs = new RunStore(database);
  for (const [index, output] of [null, false, 0, "", { a: null }, "ü\u0000x"].entries()) {
    runs.create(newRun(`r${index}`));
    runs.end(`r${index}`, "one", { status: "succeeded", output });
    expect(runs.get(`r${index}`)?.output).toEqual(output);
  }
});
