/** What workflows do: the kinds of steps, failures, limits, cancelling. */
import { mkdtemp, readFile, rm } from "node:fs/promises";
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

/** Patient, because other tests run beside these. */
function eventually<Value>(read: () => Value) {
  return expect.poll(read, { timeout: 15_000, interval: 5 });
}

describe("a workflow", () => {
  it("of the founding document loops back until the tests pass", async () => {
    let tests = 0;
    await using fixture = new EngineFixture({
      evaluator,
      agents: {
        "code-analyzer": echo,
        "code-fixer": echo,
        "test-runner": () => ({ all_passed: ++tests === 3 }),
      },
    });
    const path = join(import.meta.dirname, "../testing/code-review-and-fix.yaml");
    const run = await fixture.run(await readFile(path, "utf8"));
    expect(run).toMatchObject({ status: "succeeded", output: { all_passed: true } });
    expect(fixture.shown(run.runId)).toEqual([
      "analyze:1 succeeded",
      "fix:1 succeeded",
      "test:1 succeeded",
      "check-results:1 succeeded",
      "fix:2 succeeded",
      "test:2 succeeded",
      "check-results:2 succeeded",
      "fix:3 succeeded",
      "test:3 succeeded",
      "check-results:3 succeeded",
      "done:1 succeeded",
    ]);
    const types = fixture.eventTypes(run.runId);
    expect(types.slice(0, 4)).toEqual([
      "workflow_queued",
      "workflow_started",
      "step_started",
      "step_ended",
    ]);
    expect(types.at(-1)).toBe("workflow_ended");
  });

  it("hands values from step to step", async () => {
    await using fixture = new EngineFixture({
      evaluator,
      agents: { echo, add: ({ input }) => input },
    });
    const run = await fixture.run(
      `
steps:
  - { id: greet, agent: echo, task: "Hello {{ input.name }}, {{ input.tags }}" }
  - { id: sum, agent: add, input: { total: "{{ input.count + 1 }}", label: "n={{ input.count }}" } }
  - { id: shape, type: set, values: { greeting: "{{ steps.greet.output }}", all: "{{ steps.sum.output }}", fixed: [1, null] } }
  - { id: done, type: end, output: { result: "{{ steps.shape.output }}", run: "{{ run.workflow_id }}" } }
`,
      { name: "Ada", tags: ["a"], count: 2 },
    );
    expect(run.output).toEqual({
      run: "w",
      result: { greeting: 'Hello Ada, ["a"]', all: { total: 3, label: "n=2" }, fixed: [1, null] },
    });
  });

  it("gives its agents the task of the run when their steps have none", async () => {
    await using fixture = new EngineFixture({ evaluator, agents: { echo } });
    const source = "steps: [{ id: a, agent: echo }]";
    expect((await fixture.run(source, "text")).output).toBe("text");
    expect((await fixture.run(source, { task: "of a mapping" })).output).toBe("of a mapping");
    expect((await fixture.run(source, { other: 1 })).output).toBe(null);
  });

  it.each([
    ["an `if` about the value", "{ if: 'value > 2', next: big }", 3, "big"],
    ["a number as text", "{ condition: '3', next: big }", 3, "big"],
    ["a number", "{ condition: 3, next: big }", 3, "big"],
    ["a text", "{ condition: 'yes', next: big }", "yes", "big"],
    ["a text that is not the value", "{ condition: 'yes', next: big }", "no", "small"],
    ["null", "{ condition: null, next: big }", null, "big"],
    ["a text that looks like true", "{ condition: 'true', next: big }", "true", "big"],
  ])("switches by %s", async (_what, transition, value, expected) => {
    await using fixture = new EngineFixture({ evaluator });
    const run = await fixture.run(
      `
steps:
  - { id: s, type: switch, expression: input.value, transitions: [${transition}], default: small }
  - { id: big, type: end, output: big }
  - { id: small, type: end, output: small }
`,
      { value },
    );
    expect(run.output).toBe(expected);
  });

  it.each([
    [
      "that has no transition for the value",
      "expression: input.n, transitions: [{ condition: 2, next: a }]",
      "NO_TRANSITION",
      "no condition holds for the value 1; add a default",
    ],
    [
      "whose condition is not true or false",
      "transitions: [{ if: input.n, next: a }]",
      "EXPRESSION_FAILED",
      "`input.n` is 1; a condition must be true or false",
    ],
    [
      "whose value is missing",
      "expression: input.missing, transitions: [{ condition: 2, next: a }]",
      "EXPRESSION_FAILED",
      "field not found: missing",
    ],
  ])("fails at a switch %s", async (_what, body, code, message) => {
    await using fixture = new EngineFixture({ evaluator });
    const run = await fixture.run(
      `steps: [{ id: s, type: switch, ${body} }, { id: a, type: end }]`,
      { n: 1 },
    );
    expect(run.status).toBe("failed");
    expect(run.error).toMatchObject({
      code,
      step: "s",
      message: expect.stringContaining(message) as string,
    });
  });

  it("runs branches at the same time, within its limit, and joins them", async () => {
    let running = 0;
    let most = 0;
    await using fixture = new EngineFixture({
      evaluator,
      agents: {
        slow: async ({ task }) => {
          most = Math.max(most, ++running);
          await new Promise((resolve) => setTimeout(resolve, 20));
          running -= 1;
          return task;
        },
      },
    });
    const branches = ["a", "b", "c", "d", "e"].map(
      (name) => `{ name: ${name}, steps: [{ id: ${name}1, agent: slow, task: "${name}" }] }`,
    );
    const run = await fixture.run(`
steps:
  - { id: all, type: parallel, max_concurrency: 2, branches: [${branches.join(", ")}] }
  - { id: after, type: transform, expression: "steps.c1.output + steps.all.output.e" }
`);
    expect(run.output).toBe("ce");
    expect(most).toBe(2);
    const all = fixture.steps(run.runId).find(({ stepId }) => stepId === "all");
    expect(all?.output).toEqual({ a: "a", b: "b", c: "c", d: "d", e: "e" });
  });

  it("stops the other branches when one fails, and fails with its failure", async () => {
    const begun = Promise.withResolvers<void>();
    await using fixture = new EngineFixture({
      evaluator,
      agents: {
        fails: async () => {
          await begun.promise;
          throw new AgentRunError("MODEL_FAILED", "no answer");
        },
        hang: (request) => {
          begun.resolve();
          return hang(request);
        },
      },
    });
    const run = await fixture.run(`
steps:
  - id: both
    type: parallel
    branches:
      - { name: l, steps: [{ id: bad, agent: fails }] }
      - { name: r, steps: [{ id: slow, agent: hang }, { id: never, agent: fails }] }
`);
    expect(run).toMatchObject({
      status: "failed",
      error: { code: "MODEL_FAILED", message: "agent fails: no answer", step: "bad" },
    });
    expect(fixture.shown(run.runId)).toEqual([
      "both:1 failed",
      "both:1/l/bad:1 failed",
      "both:1/r/slow:1 cancelled",
    ]);
  });

  it("goes through lists within its limit and keeps their order", async () => {
    let running = 0;
    let most = 0;
    await using fixture = new EngineFixture({
      evaluator,
      agents: {
        slow: async ({ task = "" }) => {
          most = Math.max(most, ++running);
          // Later items are faster.
          await new Promise((resolve) => setTimeout(resolve, 30 - Number(task) * 5));
          running -= 1;
          return Number(task) * 10;
        },
      },
    });
    const run = await fixture.run(
      `
steps:
  - id: each
    type: foreach
    items: input
    item: number
    max_concurrency: 3
    steps:
      - { id: one, agent: slow, task: "{{ number }}" }
      - { id: two, type: transform, expression: "steps.one.output + index" }
`,
      [0, 1, 2, 3, 4],
    );
    expect(run.output).toEqual([0, 11, 22, 33, 44]);
    expect(most).toBe(3);
    expect(fixture.shown(run.runId)).toContain("each:1/[4]/two:1 succeeded");
  });

  it.each([
    ["text", "items is not a list but string"],
    [null, "items is not a list but null"],
    [[1, 2, 3], "there are 3 items and max_items is 2"],
  ])("refuses to go through %j", async (input, message) => {
    await using fixture = new EngineFixture({ evaluator });
    const run = await fixture.run(
      `steps: [{ id: each, type: foreach, items: input, max_items: 2, steps: [{ id: x, type: end }] }]`,
      input,
    );
    expect(run.error).toMatchObject({ code: "INVALID_ITEMS", message: `step each: ${message}` });
  });

  it("goes through an empty list", async () => {
    await using fixture = new EngineFixture({ evaluator });
    const source = `steps: [{ id: each, type: foreach, items: input, steps: [{ id: x, type: end }] }]`;
    expect((await fixture.run(source, [])).output).toEqual([]);
  });

  it("catches failures and tells what they were", async () => {
    await using fixture = new EngineFixture({
      evaluator,
      agents: {
        echo,
        fails: () => {
          throw new AgentRunError("MODEL_FAILED", "no answer");
        },
      },
    });
    const run = await fixture.run(`
steps:
  - id: risky
    type: try
    try:
      - { id: first, agent: echo, task: begun }
      - { id: second, agent: fails }
    catch:
      - { id: rescue, type: set, values: "{{ error.code }} in {{ error.step }} after {{ steps.first.output }}: {{ error.message }}" }
  - { id: after, type: transform, expression: "steps.rescue.output + ' / ' + steps.first.output" }
`);
    expect(run.output).toBe("MODEL_FAILED in second after begun: agent fails: no answer / begun");
    expect(fixture.shown(run.runId)).toEqual([
      "risky:1 succeeded",
      "risky:1/try/first:1 succeeded",
      "risky:1/try/second:1 failed",
      "risky:1/catch/rescue:1 succeeded",
      "after:1 succeeded",
    ]);
  });

  it("fails with what its end says", async () => {
    await using fixture = new EngineFixture({ evaluator });
    const run = await fixture.run(
      `steps: [{ id: no, type: end, status: failed, message: "Not {{ input }}." }]`,
      "today",
    );
    expect(run).toMatchObject({
      status: "failed",
      error: { code: "ENDED_AS_FAILED", message: "Not today.", step: "no" },
    });
  });

  it("waits for a time without losing it", async () => {
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

  it("tries again with longer and longer pauses, part of them random", async () => {
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

  it("gives up after the last attempt, and at once where another one cannot help", async () => {
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

  it("ends a step that takes too long, and everything inside of it", async () => {
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

  it("does not wait for ever for an agent that does not stop", async () => {
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

describe("a workflow that loops for ever", () => {
  it("fails at the bound of the step, and says how to raise it", async () => {
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

  it("fails at the bound of the run, which nothing catches", async () => {
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
  });

  it("can catch the bound of a step", async () => {
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
  it("that is too large fails its step instead of being cut", async () => {
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

  it("that is large is left out of events, and they say so", async () => {
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

  it("ends a run that has not begun", async () => {
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
  ])("lead on when they are %s", async (approved, output) => {
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

  it("fail the step when they are refused and nothing follows that", async () => {
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

  it("are named when several wait, and given once", async () => {
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

  it("fail when nobody decides in time", async () => {
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

it("runs that wait for an approval do not keep others from running", async () => {
  await using fixture = new EngineFixture({ evaluator, maxRuns: 1, agents: { echo } });
  const waiting = fixture.submit("steps: [{ id: ask, type: approval }]");
  await fixture.until(waiting, ({ status }) => status === "waiting_approval");
  expect((await fixture.run("steps: [{ id: a, agent: echo, task: x }]")).output).toBe("x");
  fixture.engine.decide(waiting, "ask", { approved: true });
  expect((await fixture.until(waiting)).status).toBe("succeeded");
});

it("two runs of one workflow at the same time know nothing of each other", async () => {
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
  ])("and that the executor gave up %s", async (_what, safety, status) => {
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

it("no more agents work at once than the engine allows, over all runs", async () => {
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

it("runs that ended long ago are removed with all that belongs to them, and no others", async () => {
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
  expect(store.list({ limit: 9 }).map(({ runId }) => runId)).toEqual([recent.runId, waiting]);
  expect(store.steps(old.runId)).toEqual([]);
  expect(fixture.eventTypes(old.runId)).toEqual([]);
  expect(fixture.eventTypes("run_of_old")).toEqual([]);
  expect(agents.get("run_of_old")).toBeUndefined();
  expect(agents.get("run_of_none")).toBeDefined();
  expect(fixture.eventTypes(recent.runId)).not.toEqual([]);
});
