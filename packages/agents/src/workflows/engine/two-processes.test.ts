/**
 * Several processes on one database: one process works on each run, and a stopped one does no harm.
 */
import { expect, it, vi } from "vitest";
import { openDatabase } from "../../store/database.ts";
import { EventLog } from "../../store/event-log.ts";
import { ProcessRegistry } from "../../store/process-registry.ts";
import { ALL_MIGRATIONS } from "../testing/engine-fixture.ts";
import { EngineProcesses } from "../testing/engine-processes.ts";
import { systemClock } from "./clock.ts";
import { RunStore } from "./run-store.ts";

const PATIENCE_MS = 120_000;
const POLL = { timeout: 60_000, interval: 10 };

it("exactly one of them works on each run", { timeout: PATIENCE_MS }, async () => {
  await using processes = new EngineProcesses({ deadAfterMs: 60_000 });
  const submit = (count: number): string[] =>
    Array.from({ length: count }, () =>
      processes.submit(`
steps:
  - { id: a, agent: work, task: one }
  - { id: each, type: foreach, items: "[1, 2]", steps: [{ id: b, agent: work, task: "{{ item }}" }] }
  - { id: c, agent: work, task: three }
`),
    );
  const early = submit(10);
  const owners = await Promise.all([processes.start(), processes.start()]);
  const runs = [...early, ...submit(10)];
  for (const runId of runs) {
    expect((await processes.until(runId)).status).toBe("succeeded");
    expect(Object.values(processes.begun(runId))).toEqual([1, 1, 1, 1, 1]);
    expect(processes.effects(runId).filter((line) => line.startsWith("begin"))).toHaveLength(4);
    expect(processes.store.get(runId)?.epoch).toBe(1);
    const starts = processes.events
      .read(runId, 0, 100)
      .filter(({ type }) => type === "workflow_started");
    expect(starts).toHaveLength(1);
    const { process_id: owner } = starts[0]!.data as { readonly process_id: string };
    expect(owners.map(({ id }) => id)).toContain(owner);
  }
});

it.each([
  ["safe", "safe: true", "succeeded"],
  ["not safe", "safe: false", "needs_attention"],
])(
  "a process that is stopped in a step that is %s and goes on later writes nothing more",
  { timeout: PATIENCE_MS },
  async (_what, safety, expected) => {
    await using processes = new EngineProcesses({ deadAfterMs: 2000 });
    processes.hold();
    const runId = processes.submit(`
steps:
  - { id: a, agent: work, task: one }
  - { id: b, agent: hold, task: two, ${safety} }
  - { id: c, agent: work, task: three }
`);
    const first = await processes.start();
    await vi.waitFor(() => expect(processes.effects(runId)).toContain("begin hold two"), POLL);
    first.child.kill("SIGSTOP");
    const second = await processes.start();
    await processes.until(runId, ({ owner, status }) => owner === second.id || status === expected);
    processes.release();
    const run = await processes.until(runId, ({ status }) => status === expected);
    expect(run).toMatchObject({ status: expected, epoch: 2 });
    const written = (): unknown => [
      processes.store.get(runId),
      processes.store.steps(runId),
      processes.events.read(runId, 0, 100),
    ];
    const before = written();
    first.child.kill("SIGCONT");
    // It ends only after it has handled everything that it was doing.
    await processes.kill(first, "SIGTERM");
    expect(written()).toEqual(before);
    const agents = processes.effects(runId);
    expect(agents.filter((line) => line === "begin work three")).toHaveLength(
      expected === "succeeded" ? 1 : 0,
    );
  },
);

it("a process's write to a run that another one has taken is refused as a whole", () => {
  using database = openDatabase(":memory:", ALL_MIGRATIONS);
  const events = new EventLog(database);
  let nowMs = 0;
  const registry = () => new ProcessRegistry(database, { deadAfterMs: 1000, now: () => nowMs });
  const [first, second] = [registry(), registry()].map((processes) => ({
    processes,
    store: new RunStore(database, events, processes, systemClock),
  }));
  const isMine = (): boolean => true;
  first!.store.create({ runId: "r", workflowId: "w", file: "w", source: "", input: null });
  const [taken] = first!.store.claim(1, isMine);
  const journal = first!.store.journal(taken!);
  journal.runStarted(false);
  // No process takes the run of a live one, or takes a run twice.
  expect(second!.store.claim(1, isMine)).toEqual([]);
  expect(first!.store.claim(1, isMine)).toEqual([]);
  nowMs = 2000;
  second!.processes.beat();
  expect(second!.store.claim(1, isMine)).toMatchObject([{ runId: "r", epoch: 2 }]);
  const written = (): unknown => [
    second!.store.get("r"),
    second!.store.steps("r"),
    events.read("r", 0, 100),
  ];
  const before = written();
  const step = { path: "a:1", stepId: "a", type: "agent", attempt: 1 };
  const failure = { code: "X", message: "x" };
  for (const write of [
    () => journal.runStarted(true),
    () => journal.stepStarted({ ...step, number: 1, data: {}, status: "running" }),
    () => journal.stepSucceeded(step, { output: 1, next: undefined }, { default: "id" }),
    () => journal.stepFailed(step, "failed", failure),
    () => journal.retryScheduled(step, failure, { dueMs: 1 }),
    () => journal.needsAttention("why", {}),
    () => journal.runEnded({ status: "succeeded", output: 1 }),
    () => journal.confirm(),
    () => journal.release(),
  ])
    expect(write).toThrow("another process has the run");
  expect(written()).toEqual(before);
});
