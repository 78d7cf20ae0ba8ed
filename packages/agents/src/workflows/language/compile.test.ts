/** Workflow files in either spelling become the same plan. */
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { compileWorkflow, countSteps } from "./compile.ts";
import type { Plan, Step } from "./plan.ts";
import { describeProblems } from "./problem.ts";

const FOUNDING = join(import.meta.dirname, "../testing/code-review-and-fix.yaml");

function planOf(text: string): Plan {
  const { plan, problems } = compileWorkflow(text, "w");
  expect(describeProblems("w", problems)).toEqual([]);
  return plan!;
}

function stepOf<Type extends Step["type"]>(plan: Plan, id: string): Extract<Step, { type: Type }> {
  return plan.root.steps.find((step) => step.id === id) as Extract<Step, { type: Type }>;
}

/** Without properties that depend on positions in the file. */
function withoutPlaces(plan: Plan): unknown {
  return JSON.parse(
    JSON.stringify(plan, (name, value: unknown) =>
      name === "place" || name === "offset" ? undefined : value,
    ),
  );
}

describe("compileWorkflow()", () => {
  it("accepts the founding document's workflow unchanged", async () => {
    const plan = planOf(await readFile(FOUNDING, "utf8"));
    expect(plan).toMatchObject({
      id: "code-review-and-fix",
      name: "Code Review and Fix",
      description: "Reviews code, identifies issues, fixes them, and verifies",
      root: { start: "analyze" },
    });
    expect(plan.root.steps.map(({ id, type }) => [id, type])).toEqual([
      ["analyze", "agent"],
      ["fix", "agent"],
      ["test", "agent"],
      ["check-results", "switch"],
      ["done", "end"],
    ]);
    expect(stepOf<"agent">(plan, "analyze")).toMatchObject({ agent: "code-analyzer", next: "fix" });
    expect(stepOf<"switch">(plan, "check-results")).toMatchObject({
      expression: { source: "steps.test.output.all_passed" },
      transitions: [
        { condition: { kind: "equals", value: "true" }, next: "done" },
        { condition: { kind: "equals", value: "false" }, next: "fix" },
      ],
    });
  });

  it("compiles both spellings to the same plan", () => {
    const steps = planOf(`
id: both
steps:
  - id: ask
    type: agent
    agent: writer
    task: "Write about {{ input.topic }}"
    next: route
  - id: route
    type: switch
    transitions:
      - condition: steps.ask.output.long
        next: each
    default: done
  - id: each
    type: foreach
    items: steps.ask.output.parts
    item: part
    max_concurrency: 3
    steps:
      - { id: check, type: agent, agent: checker, agent_task: "{{ part }}" }
  - { id: done, type: end }
`);
    const states = planOf(`
id: both
start: ask
states:
  - id: ask
    type: agent
    agent: writer
    agentTask: "Write about {{ input.topic }}"
    transition: route
  - id: route
    type: switch
    conditions:
      - if: steps.ask.output.long
        transition: each
    defaultNext: done
  - id: each
    type: foreach
    itemsPath: steps.ask.output.parts
    itemName: part
    maxConcurrency: 3
    iterator:
      start: check
      states:
        - { id: check, type: agent, agent: checker, task: "{{ part }}", end: true }
    next: done
  - { id: done, type: end }
`);
    expect(withoutPlaces(states)).toEqual(withoutPlaces(steps));
  });

  it("accepts every kind of step, each with all its names", () => {
    const plan = planOf(`
name: All kinds
sandbox: { retain_seconds: 10m }
max_steps: 500
input_schema: { type: object }
steps:
  - { name: first, agent: a, input: { n: 1 }, timeout: 90s, safe: true, retry: { max_attempts: 5, backoff: 2, max_backoff: 1m, jitter: true } }
  - { id: set1, type: set, values: { a: "{{ input.a }}", b: [1, "x{{ run.id }}"] } }
  - { id: inject, type: inject, data: { a: 1 } }
  - { id: calc, type: transform, expression: "steps.set1.output.a" }
  - { id: wait1, type: timer, seconds: 1.5 }
  - { id: wait2, type: wait, duration: 1h30m }
  - { id: wait3, type: delay, until: "'2030-01-01T00:00:00Z'" }
  - { id: ask1, type: approval, message: "Go, {{ input.name }}?", on_reject: stop }
  - { id: ask2, type: human.approval }
  - id: both
    type: parallel
    join: { mode: all }
    branches:
      - { name: left, steps: [{ id: l, agent: a }] }
      - { name: right, states: [{ id: r, agent: b }] }
  - id: risky
    type: try
    timeout_seconds: 5
    try: [{ id: t, agent: a }]
    catch: { steps: [{ id: c, type: set, values: "{{ error.message }}" }] }
  - { id: ok, type: end, output: { done: true } }
  - { id: stop, type: end, status: failed, message: "no: {{ steps.ask1.output.comment }}" }
`);
    expect(plan).toMatchObject({ id: "w", retainMs: 600_000, maxSteps: 500 });
    expect(countSteps(plan)).toBe(17);
    expect(stepOf<"agent">(plan, "first")).toMatchObject({
      timeoutMs: 90_000,
      safe: true,
      retry: { maxAttempts: 5, backoffMs: 2000, maxBackoffMs: 60_000, jitter: 1 },
    });
    expect(stepOf<"timer">(plan, "wait2").wait).toEqual({ ms: 5_400_000 });
    expect(stepOf<"approval">(plan, "ask2").message).toEqual({
      kind: "constant",
      value: "Approve ask2?",
    });
    expect(stepOf<"parallel">(plan, "both")).toMatchObject({
      maxConcurrency: 4,
      branches: [{ name: "left" }, { name: "right" }],
    });
    expect(stepOf<"try">(plan, "risky").timeoutMs).toBe(5000);
  });
});
