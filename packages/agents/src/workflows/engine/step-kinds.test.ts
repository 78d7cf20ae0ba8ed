/** What each kind of step does. */
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { AgentRunError } from "../../runs/agent-executor.ts";
import { Evaluator } from "../expressions/evaluator.ts";
import { echo, EngineFixture, hang } from "../testing/engine-fixture.ts";

/** One thread for all tests of the file: starting one takes longer than most of them. */
const evaluator = new Evaluator();
afterAll(async () => await evaluator[Symbol.asyncDispose]());

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

  it("passes values from step to step", async () => {
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

  it("gives its agents the task of the run if their steps have none", async () => {
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
      "no condition is met for the value 1; add a default",
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

  it("runs branches in parallel, within its limit, and joins them", async () => {
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

  it("stops the other branches if one fails, and fails with its error", async () => {
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

  it("processes lists within its limit and keeps their order", async () => {
    let running = 0;
    let most = 0;
    const three = Promise.withResolvers<void>();
    await using fixture = new EngineFixture({
      evaluator,
      agents: {
        slow: async ({ task = "" }) => {
          most = Math.max(most, ++running);
          if (running === 3) three.resolve();
          await three.promise;
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
  ])("refuses to process %j", async (input, message) => {
    await using fixture = new EngineFixture({ evaluator });
    const run = await fixture.run(
      `steps: [{ id: each, type: foreach, items: input, max_items: 2, steps: [{ id: x, type: end }] }]`,
      input,
    );
    expect(run.error).toMatchObject({ code: "INVALID_ITEMS", message: `step each: ${message}` });
  });

  it("processes an empty list", async () => {
    await using fixture = new EngineFixture({ evaluator });
    const source = `steps: [{ id: each, type: foreach, items: input, steps: [{ id: x, type: end }] }]`;
    expect((await fixture.run(source, [])).output).toEqual([]);
  });

  it("can read steps and items by all their names", async () => {
    await using fixture = new EngineFixture({ evaluator });
    const run = await fixture.run(`
steps:
  - { id: __proto__, type: transform, expression: "[1, 2]" }
  - { id: constructor, type: transform, expression: "steps.__proto__.output" }
  - id: each
    type: foreach
    items: steps.constructor.output
    item: __proto__
    steps: [{ id: toString, type: transform, expression: "__proto__ + 1" }]
`);
    expect(run).toMatchObject({ status: "succeeded", output: [2, 3] });
  });

  it("catches failures and reports them", async () => {
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

  it("fails with the message of its end step", async () => {
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
});
