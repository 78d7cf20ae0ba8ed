/** Concurrent runs, runs that another process left, and old runs. */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { AgentRunError } from "../../runs/agent-executor.ts";
import { RunStore as AgentRunStore } from "../../store/run-store.ts";
import { Evaluator } from "../expressions/evaluator.ts";
import { echo, EngineFixture, hang } from "../testing/engine-fixture.ts";
import { ManualClock } from "../testing/manual-clock.ts";

/** One thread for all tests of the file: starting one takes longer than most of them. */
const evaluator = new Evaluator();
afterAll(async () => await evaluator[Symbol.asyncDispose]());

/** With a long timeout, because other tests run concurrently. */
function eventually<Value>(read: () => Value) {
  return expect.poll(read, { interval: 5 });
}

it("two concurrent runs of one workflow are independent", async () => {
  await using fixture = new EngineFixture({
    evaluator,
    agents: {
      slow: async ({ task }) => {
        await new Promise((resolve) => setTimeout(resolve, 10));
        return task;
      },
    },
  });
  const source = `
steps:
  - { id: a, agent: slow, task: "{{ input }}" }
  - { id: b, agent: slow, task: "{{ steps.a.output }}!" }
`;
  const runs = await Promise.all(
    ["x", "y", "z"].map(async (name) => await fixture.run(source, name)),
  );
  expect(runs.map(({ output }) => output)).toEqual(["x!", "y!", "z!"]);
});

it("a failure of the service itself ends the run and leaves the cause in the log", async () => {
  await using fixture = new EngineFixture({
    evaluator,
    agents: {
      broken: () => {
        throw new TypeError("a bug");
      },
    },
  });
  const run = await fixture.run("steps: [{ id: a, agent: broken }]");
  expect(run.error?.code).toBe("INTERNAL_ERROR");
  expect(run.error?.message).not.toContain("a bug");
  expect(fixture.log.join()).toContain("TypeError: a bug");
});

describe("an agent that was running when its process was lost", () => {
  const source = `
steps:
  - { id: a, agent: echo, task: one }
  - { id: b, agent: hang, task: two }
  - { id: c, agent: echo, task: "{{ steps.b.output }}!" }
`;

  /** A database in which a process has left a run in the middle of its second step. */
  async function leftBehind(directory: string): Promise<{ path: string; runId: string }> {
    const path = join(directory, "agents.db");
    await using first = new EngineFixture({ evaluator, path, agents: { echo, hang } });
    const runId = first.submit(source);
    await eventually(() => first.shown(runId)).toEqual(["a:1 succeeded", "b:1 running"]);
    return { path, runId };
  }

  it("and had ended by then does not run again: its answer counts", async () => {
    const directory = await mkdtemp(join(tmpdir(), "sandkasten-workflows-"));
    try {
      const { path, runId } = await leftBehind(directory);
      const asked: unknown[] = [];
      await using second = new EngineFixture({
        evaluator,
        path,
        agents: { echo },
        finished: (agentRunId) => {
          asked.push(agentRunId);
          return "answered";
        },
      });
      expect((await second.until(runId)).output).toBe("answered!");
      expect(second.started).toEqual(["echo"]);
      expect(new Set(asked)).toEqual(new Set([second.steps(runId)[1]?.agentRunId]));
      expect(second.steps(runId)[1]).toMatchObject({ attempt: 1, output: "answered" });
    } finally {
      await rm(directory, { recursive: true, force: true });
    }
  });

  it.each([
    ["runs again where it is safe", "safe: true", "succeeded"],
    ["waits for a person where it is not", "safe: false", "needs_attention"],
  ])("and that the executor abandoned %s", async (_what, safety, status) => {
    let times = 0;
    await using fixture = new EngineFixture({
      evaluator,
      agents: {
        lost: () => {
          if (++times === 1) throw new AgentRunError("PROCESS_ENDED", "It did not answer.");
          return "again";
        },
      },
    });
    const runId = fixture.submit(`steps: [{ id: a, agent: lost, ${safety} }]`);
    const run = await fixture.until(runId, (one) => one.status === "needs_attention");
    expect(run.status).toBe(status);
    if (status === "succeeded") return;
    expect(run.reason).toContain("while step a (agent lost) was running");
    fixture.engine.resume(runId);
    expect((await fixture.until(runId)).output).toBe("again");
  });
});

it("the engine's limit for agents applies to all runs together", async () => {
  let running = 0;
  let most = 0;
  await using fixture = new EngineFixture({
    evaluator,
    maxAgents: 3,
    agents: {
      slow: async () => {
        most = Math.max(most, ++running);
        await new Promise((resolve) => setTimeout(resolve, 5));
        running -= 1;
      },
    },
  });
  const source = `steps: [{ id: e, type: foreach, items: "[1, 2, 3, 4]", max_concurrency: 4, steps: [{ id: a, agent: slow }] }]`;
  const runs = await Promise.all([1, 2, 3].map(async () => await fixture.run(source)));
  expect(runs.map(({ status }) => status)).toEqual(["succeeded", "succeeded", "succeeded"]);
  expect(most).toBe(3);
});

it("only runs that ended long ago are removed, with all their data", async () => {
  const clock = new ManualClock();
  await using fixture = new EngineFixture({ evaluator, clock, agents: { echo } });
  const source = "steps: [{ id: a, agent: echo, task: x }]";
  const old = await fixture.run(source);
  const waiting = fixture.submit("steps: [{ id: a, type: approval }]");
  await fixture.until(waiting, ({ status }) => status === "waiting_approval");
  const agents = new AgentRunStore(fixture.database);
  const agentRun = (runId: string, workflowRunId: string | undefined): void => {
    agents.create({
      runId,
      workflowRunId,
      agentName: "echo",
      model: "m",
      task: undefined,
      input: undefined,
      workflowStepId: undefined,
      parentRunId: undefined,
      processId: "p",
    });
    fixture.events.append(runId, "text", {});
  };
  agentRun("run_of_old", old.runId);
  agentRun("run_of_none", undefined);
  clock.turn(40 * 86_400_000);
  const recent = await fixture.run(source);
  const { store } = fixture.engine;
  expect(store.prune(new Date(clock.nowMs() - 30 * 86_400_000))).toBe(1);
  expect(store.list({ limit: 9 }).map(({ run }) => run.runId)).toEqual([recent.runId, waiting]);
  expect(store.steps(old.runId)).toEqual([]);
  expect(fixture.eventTypes(old.runId)).toEqual([]);
  expect(fixture.eventTypes("run_of_old")).toEqual([]);
  expect(agents.get("run_of_old")).toBeUndefined();
  expect(agents.get("run_of_none")).toBeDefined();
  expect(fixture.eventTypes(recent.runId)).not.toEqual([]);
});
