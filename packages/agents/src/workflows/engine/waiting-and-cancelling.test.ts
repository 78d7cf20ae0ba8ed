/** Timers, approvals, and the end of runs that are cancelled while they wait or work. */
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

it("a timer waits for a time without losing it", async () => {
  const clock = new ManualClock();
  await using fixture = new EngineFixture({ evaluator, clock });
  const runId = fixture.submit(`
steps:
- { id: pause, type: timer, duration: 1h30m }
- { id: until, type: timer, until: "timestamp('2030-01-01T02:00:00Z')" }
- { id: done, type: end, output: awake }
`);
  await eventually(() => clock.waits).toEqual([5_400_000]);
  clock.turn(5_399_999);
  await fixture.engine.nextChange(new AbortController().signal);
  expect(fixture.shown(runId)).toEqual(["pause:1 waiting"]);
  clock.turn(1);
  await eventually(() => clock.waits).toEqual([1_800_000]);
  clock.turn(1_800_000);
  expect((await fixture.until(runId)).output).toBe("awake");
});

describe("approvals", () => {
  const source = `
steps:
  - { id: ask, type: approval, message: "Deploy {{ input.what }}?", on_reject: no }
  - { id: yes, type: end, output: "went: {{ steps.ask.output.comment }}" }
  - { id: no, type: end, output: "stopped: {{ steps.ask.output.comment }}" }
`;
  const isWaiting = ({ status }: { readonly status: string }): boolean =>
    status === "waiting_approval";

  it.each([
    [true, "went: fine"],
    [false, "stopped: fine"],
  ])("continue if they are %s", async (approved, output) => {
    await using fixture = new EngineFixture({ evaluator });
    const runId = fixture.submit(source, { what: "it" });
    expect((await fixture.until(runId, isWaiting)).status).toBe("waiting_approval");
    expect(fixture.steps(runId)[0]?.data.message).toBe("Deploy it?");
    fixture.engine.decide(runId, undefined, { approved, comment: "fine" });
    expect(await fixture.until(runId)).toMatchObject({ status: "succeeded", output });
    expect(fixture.eventTypes(runId)).toEqual(
      expect.arrayContaining(["approval_requested", "approval_given"]),
    );
  });

  it("fail the step if they are rejected and there is no next step for that", async () => {
    await using fixture = new EngineFixture({ evaluator });
    const runId = fixture.submit("steps: [{ id: ask, type: approval }]");
    await fixture.until(runId, isWaiting);
    fixture.engine.decide(runId, "ask", { approved: false, comment: "too risky" });
    expect((await fixture.until(runId)).error).toEqual({
      code: "REJECTED",
      message: "step ask was rejected: too risky",
      step: "ask",
    });
  });

  it("are named if several wait, and are given once", async () => {
    await using fixture = new EngineFixture({ evaluator });
    const runId = fixture.submit(`
steps:
  - id: both
    type: parallel
    branches:
      - { name: l, steps: [{ id: a, type: approval }] }
      - { name: r, steps: [{ id: b, type: approval }] }
`);
    await eventually(() => fixture.steps(runId).length).toBe(3);
    const decide = (step?: string) => () => fixture.engine.decide(runId, step, { approved: true });
    expect(decide()).toThrow("Name one with step_id: both:1/l/a:1, both:1/r/b:1.");
    expect(decide("c")).toThrow(
      "The step c does not wait for an approval; waiting are both:1/l/a:1",
    );
    decide("a")();
    await eventually(() => fixture.steps(runId)[1]?.status).toBe("succeeded");
    expect(fixture.engine.store.get(runId)?.status).toBe("waiting_approval");
    expect(decide("a")).toThrow("The step a does not wait for an approval");
    decide("both:1/r/b:1")();
    expect((await fixture.until(runId)).status).toBe("succeeded");
    expect(decide()).toThrow("No step of the run waits for an approval; the run is succeeded.");
  });

  it("fail if no decision is made in time", async () => {
    const clock = new ManualClock();
    await using fixture = new EngineFixture({ evaluator, clock });
    const runId = fixture.submit("steps: [{ id: ask, type: approval, timeout: 1d }]");
    await eventually(() => clock.waits).toEqual([86_400_000]);
    clock.turn(86_400_000);
    expect((await fixture.until(runId)).error).toMatchObject({
      code: "TIMEOUT",
      message: "the approval of step ask took longer than 86400 s",
    });
  });
});

it("waiting runs do not keep others from running", async () => {
  await using fixture = new EngineFixture({ evaluator, maxRuns: 1, agents: { echo } });
  const waiting = fixture.submit("steps: [{ id: ask, type: approval }]");
  await fixture.until(waiting, ({ status }) => status === "waiting_approval");
  expect((await fixture.run("steps: [{ id: a, agent: echo, task: x }]")).output).toBe("x");
  fixture.engine.decide(waiting, "ask", { approved: true });
  expect((await fixture.until(waiting)).status).toBe("succeeded");
});

describe("cancelling", () => {
  it.each([
    ["an agent", "{ id: a, agent: hang }", ["a:1 cancelled"]],
    ["a timer", "{ id: a, type: timer, seconds: 1000 }", ["a:1 cancelled"]],
    ["an approval", "{ id: a, type: approval }", ["a:1 cancelled"]],
    [
      "a pause between attempts",
      "{ id: a, agent: fails, retry: { backoff_seconds: 1000 } }",
      ["a:1 cancelled"],
    ],
    [
      "branches",
      "{ id: p, type: parallel, branches: [{ name: l, steps: [{ id: a, agent: hang }] }, { name: r, steps: [{ id: b, type: timer, seconds: 1000 }] }] }",
      ["p:1 cancelled", "p:1/l/a:1 cancelled", "p:1/r/b:1 cancelled"],
    ],
    [
      "items",
      "{ id: e, type: foreach, items: '[1]', steps: [{ id: a, agent: hang }] }",
      ["e:1 cancelled", "e:1/[0]/a:1 cancelled"],
    ],
    [
      "what a try would catch",
      "{ id: t, type: try, try: [{ id: a, agent: hang }], catch: [{ id: c, type: end }] }",
      ["t:1 cancelled", "t:1/try/a:1 cancelled"],
    ],
  ])("ends %s", async (_what, step, shown) => {
    await using fixture = new EngineFixture({
      evaluator,
      agents: {
        hang,
        fails: () => {
          throw new AgentRunError("MODEL_UNAVAILABLE", "503");
        },
      },
    });
    const runId = fixture.submit(`steps: [${step}, { id: after, type: end }]`);
    await eventually(() => fixture.steps(runId).length).toBe(shown.length);
    await eventually(() => fixture.steps(runId).at(-1)?.status).toMatch(/retrying|waiting|running/);
    if (step.includes("retry"))
      await eventually(() => fixture.steps(runId)[0]?.status).toBe("retrying");
    fixture.engine.cancel(runId);
    expect(await fixture.until(runId)).toMatchObject({ status: "cancelled", error: undefined });
    expect(fixture.shown(runId).toSorted()).toEqual(shown);
    expect(() => fixture.engine.cancel(runId)).toThrow("The run has already been cancelled.");
  });

  it("ends a run that has not started", async () => {
    await using fixture = new EngineFixture({ evaluator, maxRuns: 1, agents: { hang } });
    const first = fixture.submit("steps: [{ id: a, agent: hang }]");
    const second = fixture.submit("steps: [{ id: a, agent: hang }]");
    await eventually(() => fixture.started.length).toBe(1);
    fixture.engine.cancel(second);
    expect(fixture.engine.store.get(second)?.status).toBe("queued");
    fixture.engine.cancel(first);
    expect((await fixture.until(second)).status).toBe("cancelled");
    expect(fixture.started).toHaveLength(1);
  });
});
