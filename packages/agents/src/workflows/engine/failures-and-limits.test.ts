/** Attempts, timeouts, loops and outputs that reach their limits. */
import { afterAll, describe, expect, it } from "vitest";
import { AgentRunError } from "../../runs/agent-executor.ts";
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

describe("a step that fails", () => {
  it("is retried with increasing pauses, part of them random", async () => {
    const clock = new ManualClock();
    let tries = 0;
    await using fixture = new EngineFixture({
      evaluator,
      clock,
      random: () => 0.5,
      agents: {
        flaky: () => {
          if (++tries < 5) throw new AgentRunError("MODEL_UNAVAILABLE", `try ${tries}`);
          return "at last";
        },
      },
    });
    const runId = fixture.submit(`
steps:
  - { id: a, agent: flaky, retry: { max_attempts: 5, backoff_seconds: 10, max_backoff_seconds: 60, jitter: 0.5 } }
`);
    for (const pause of [7500, 15_000, 30_000, 45_000]) {
      await eventually(() => clock.waits).toEqual([pause]);
      expect(fixture.steps(runId)[0]).toMatchObject({ status: "retrying", attempt: tries });
      clock.turn(pause);
    }
    expect(await fixture.until(runId)).toMatchObject({ status: "succeeded", output: "at last" });
    expect(fixture.steps(runId)[0]).toMatchObject({ attempt: 5, status: "succeeded" });
    expect(fixture.eventTypes(runId).filter((type) => type === "step_retry")).toHaveLength(4);
  });

  it("fails after the last attempt, and at once if a retry cannot help", async () => {
    await using fixture = new EngineFixture({
      evaluator,
      agents: {
        bad: () => {
          throw new AgentRunError("INVALID_INPUT", "n is missing");
        },
        down: () => {
          throw new AgentRunError("MODEL_UNAVAILABLE", "503");
        },
      },
    });
    const retry = "retry: { max_attempts: 3, backoff_seconds: 0 }";
    const bad = await fixture.run(`steps: [{ id: a, agent: bad, ${retry} }]`);
    expect(bad.error).toEqual({
      code: "INVALID_INPUT",
      message: "agent bad: n is missing",
      step: "a",
    });
    const down = await fixture.run(`steps: [{ id: a, agent: down, ${retry} }]`);
    expect(down.error).toMatchObject({ code: "MODEL_UNAVAILABLE" });
    expect(fixture.started).toEqual(["bad", "down", "down", "down"]);
  });

  it("ends a step that takes too long, and everything inside it", async () => {
    const clock = new ManualClock();
    await using fixture = new EngineFixture({ evaluator, clock, agents: { hang, echo } });
    const runId = fixture.submit(`
steps:
  - id: t
    type: try
    try: [{ id: slow, agent: hang, timeout_seconds: 5 }]
    catch:
      - id: each
        type: foreach
        items: "[1, 2]"
        max_concurrency: 2
        timeout_seconds: 60
        steps: [{ id: inner, agent: hang }]
`);
    await eventually(() => clock.waits).toEqual([5000]);
    clock.turn(5000);
    await eventually(() => fixture.started.length).toBe(3);
    clock.turn(60_000);
    const run = await fixture.until(runId);
    expect(run.error).toEqual({
      code: "TIMEOUT",
      message: "step each took longer than 60 s",
      step: "each",
    });
    expect(
      fixture.steps(runId).map(({ path, status, error }) => [path, status, error?.message]),
    ).toEqual([
      ["t:1", "failed", "step each took longer than 60 s"],
      ["t:1/try/slow:1", "failed", "step slow took longer than 5 s"],
      ["t:1/catch/each:1", "failed", "step each took longer than 60 s"],
      ["t:1/catch/each:1/[0]/inner:1", "cancelled", "step each took longer than 60 s"],
      ["t:1/catch/each:1/[1]/inner:1", "cancelled", "step each took longer than 60 s"],
    ]);
  });

  it("does not wait forever for an agent that does not stop", async () => {
    const clock = new ManualClock();
    await using fixture = new EngineFixture({
      evaluator,
      clock,
      agents: { deaf: async () => await new Promise(() => undefined) },
    });
    const runId = fixture.submit(`steps: [{ id: a, agent: deaf, timeout_seconds: 5 }]`);
    await eventually(() => clock.waits).toEqual([5000]);
    clock.turn(5000);
    await eventually(() => clock.waits).toEqual([10_000]);
    clock.turn(10_000);
    expect((await fixture.until(runId)).error).toMatchObject({ code: "TIMEOUT" });
    expect(fixture.log).toContain("agent deaf of step a did not stop within 10 s");
  });
});

describe("a workflow with an endless loop", () => {
  it("fails at the limit of the step, and says how to raise it", async () => {
    await using fixture = new EngineFixture({ evaluator });
    const run = await fixture.run(
      `steps: [{ id: a, type: set, values: 1 }, { id: b, type: set, values: 2, next: a, max_visits: 7 }]`,
    );
    expect(run.error).toEqual({
      code: "LOOP_LIMIT",
      message:
        "step b has been reached 8 times, and its max_visits is 7; raise max_visits if the loop needs more rounds",
      step: "b",
    });
    expect(fixture.steps(run.runId)).toHaveLength(16);
  });

  it("fails at the limit of the run, which nothing catches", async () => {
    await using fixture = new EngineFixture({ evaluator });
    const run = await fixture.run(`
max_steps: 20
steps:
  - id: t
    type: try
    try: [{ id: a, type: set, values: 1, next: a }]
    catch: [{ id: c, type: end }]
`);
    expect(run).toMatchObject({
      status: "failed",
      error: { code: "STEP_LIMIT", message: "the run has taken 20 steps, which is its max_steps" },
    });
    const succeeded = fixture.steps(run.runId).filter(({ status }) => status === "succeeded");
    // The `try` around them is also a step.
    expect(succeeded).toHaveLength(19);
  });

  it("can catch the limit of a step", async () => {
    await using fixture = new EngineFixture({ evaluator });
    const run = await fixture.run(`
steps:
  - id: t
    type: try
    try: [{ id: a, type: set, values: 1, next: a, max_visits: 3 }]
    catch: [{ id: c, type: transform, expression: error.code }]
`);
    expect(run).toMatchObject({ status: "succeeded", output: "LOOP_LIMIT" });
  });
});

describe("an output", () => {
  it("that is too large fails its step instead of being truncated", async () => {
    await using fixture = new EngineFixture({
      evaluator,
      agents: { big: () => "x".repeat(5 * 1024 * 1024) },
    });
    const run = await fixture.run("steps: [{ id: a, agent: big }]");
    expect(run.error).toMatchObject({
      code: "OUTPUT_TOO_LARGE",
      message: expect.stringMatching(
        /^the output of step a has 5242882 bytes; at most 4194304 are kept/,
      ) as string,
    });
  });

  it("that is nested too deep fails its step, so the run can still be read", async () => {
    await using fixture = new EngineFixture({ evaluator });
    const levels = 60;
    const run = await fixture.run(`
steps:
  - id: nest
    type: transform
    expression: "has(steps.nest) ? ${"[".repeat(levels)}steps.nest.output${"]".repeat(levels)} : []"
  - id: again
    type: switch
    transitions: [{ if: "true", next: nest }]
`);
    expect(run.error).toMatchObject({ code: "EXPRESSION_FAILED", step: "nest" });
    expect(run.error?.message).toMatch(/nested more than 200 levels deep/);
    expect(fixture.steps(run.runId).length).toBeLessThan(20);
  });

  it("is limited for all steps of a run together", async () => {
    await using fixture = new EngineFixture({
      evaluator,
      agents: { big: () => "x".repeat(4_000_000) },
    });
    const run = await fixture.run(`
steps:
  - id: t
    type: try
    try: [{ id: a, agent: big, next: a }]
    catch: [{ id: c, type: end }]
`);
    expect(run.error).toMatchObject({
      code: "OUTPUT_TOO_LARGE",
      message: expect.stringContaining("all steps together") as string,
    });
    expect(fixture.started).toHaveLength(17);
  });

  it("that is large is omitted from events, and they say so", async () => {
    await using fixture = new EngineFixture({
      evaluator,
      agents: { big: () => "x".repeat(100_000) },
    });
    const run = await fixture.run("steps: [{ id: a, agent: big }]");
    const ended = fixture.events.read(run.runId, 0, 100).find(({ type }) => type === "step_ended");
    expect(ended?.data).toMatchObject({ output_omitted: true, output_bytes: 100_002 });
    expect(fixture.steps(run.runId)[0]?.output).toHaveLength(100_000);
  });
});
