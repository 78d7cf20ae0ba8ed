/** A process that is killed in the middle of every kind of step, and what the next one does. */
import { deepEqual, equal, ok } from "node:assert/strict";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { EngineProcesses } from "../testing/engine-processes.ts";

const PATIENCE_MS = 120_000;
const POLL = { timeout: 60_000, interval: 10 };

interface Scenario {
  readonly source: string;
  /** The steps as they are when the process is killed. */
  readonly atKill: readonly string[];
}

const pure = (step: string): Scenario => ({
  source: `
steps:
  - { id: first, agent: work, task: one }
  - ${step}
  ${step.includes("type: end") ? "" : "- { id: end, type: end }"}
`,
  atKill: ["first:1 succeeded", "s:1 running"],
});

const approval: Scenario = {
  source: `
steps:
  - { id: first, agent: work, task: one }
  - { id: ask, type: approval, message: "{{ steps.first.output }}?" }
  - { id: then, agent: work, task: "{{ steps.ask.output.comment }}" }
`,
  atKill: ["first:1 succeeded", "ask:1 waiting"],
};

const held: Scenario = {
  source: `
steps:
  - { id: first, agent: work, task: one }
  - { id: second, agent: hold, task: two }
  - { id: third, agent: work, task: three }
`,
  atKill: ["first:1 succeeded", "second:1 running"],
};

const timer = (duration: string): Scenario => ({
  source: `
steps:
  - { id: first, agent: work, task: one }
  - { id: pause, type: timer, duration: ${duration} }
  - { id: then, agent: work, task: two }
`,
  atKill: ["first:1 succeeded", "pause:1 waiting"],
});

const retry = (backoff: string): Scenario => ({
  source: `
steps:
  - { id: flaky, agent: fail-once, task: x, retry: { backoff: ${backoff}, max_backoff: 1d, jitter: 0 } }
`,
  atKill: ["flaky:1 retrying"],
});

const SCENARIOS = {
  agent: held,
  "agent, given up": held,
  "safe agent": {
    source: held.source.replace("task: two", "task: two, safe: true"),
    atKill: held.atKill,
  },
  "agent's task": {
    source: `
steps:
  - { id: first, agent: work, task: one }
  - { id: second, agent: work, task: "{{ run.id }}" }
`,
    atKill: ["first:1 succeeded"],
  },
  switch: pure(
    `{ id: s, type: switch, expression: "run.id != ''", transitions: [{ condition: true, next: end }] }`,
  ),
  condition: pure(`{ id: s, type: switch, transitions: [{ if: "run.id != ''", next: end }] }`),
  transform: pure("{ id: s, type: transform, expression: run.id }"),
  set: pure('{ id: s, type: set, values: { a: "{{ run.id }}" } }'),
  end: pure('{ id: s, type: end, output: "{{ run.id }}" }'),
  foreach: {
    source: `
steps:
  - id: each
    type: foreach
    items: "['a', 'b', 'c', 'd']"
    max_concurrency: 2
    steps:
      - { id: work, agent: work, task: "{{ item }}" }
      - { id: check, type: switch, expression: "item == 'c'", transitions: [{ condition: true, next: stop }], default: out }
      - { id: stop, agent: hold, task: "{{ item }}", safe: true }
      - { id: out, type: transform, expression: "item + '!'" }
`,
    atKill: [
      "each:1 running",
      ...["[0]", "[1]", "[3]"].flatMap((item) =>
        ["work:1", "check:1", "out:1"].map((step) => `each:1/${item}/${step} succeeded`),
      ),
      "each:1/[2]/work:1 succeeded",
      "each:1/[2]/check:1 succeeded",
      "each:1/[2]/stop:1 running",
    ],
  },
  parallel: {
    source: `
steps:
  - id: both
    type: parallel
    branches:
      - { name: l, steps: [{ id: left, agent: work, task: left }] }
      - { name: r, steps: [{ id: right, agent: work, task: right }, { id: last, agent: hold, task: last, safe: true }] }
  - { id: after, type: transform, expression: "steps.left.output + steps.right.output + steps.last.output" }
`,
    atKill: [
      "both:1 running",
      "both:1/l/left:1 succeeded",
      "both:1/r/right:1 succeeded",
      "both:1/r/last:1 running",
    ],
  },
  "parallel, half safe": {
    source: `
steps:
  - id: both
    type: parallel
    branches:
      - { name: l, steps: [{ id: left, agent: hold, task: left, safe: true }] }
      - { name: r, steps: [{ id: right, agent: hold-too, task: right }] }
`,
    atKill: ["both:1 running", "both:1/l/left:1 running", "both:1/r/right:1 running"],
  },
  try: {
    source: `
steps:
  - { id: seen, agent: work, task: seen }
  - id: risky
    type: try
    try:
      - { id: fine, agent: work, task: fine }
      - { id: bad, type: end, status: failed, message: "as {{ steps.fine.output }} as {{ steps.seen.output }}" }
    catch:
      - { id: rescue, agent: hold, task: "{{ error.message }}", safe: true }
  - { id: pause, type: timer, seconds: 1 }
  - { id: after, type: transform, expression: "steps.rescue.output + ' ' + steps.fine.output" }
`,
    atKill: [
      "seen:1 succeeded",
      "risky:1 running",
      "risky:1/try/fine:1 succeeded",
      "risky:1/try/bad:1 failed",
      "risky:1/catch/rescue:1 running",
    ],
  },
  "compound steps before": {
    source: `
steps:
  - id: both
    type: parallel
    branches:
      - { name: l, steps: [{ id: left, agent: work, task: left }] }
      - { name: r, steps: [{ id: right, agent: work, task: right }] }
  - id: risky
    type: try
    try:
      - { id: fine, agent: work, task: fine }
      - { id: bad, type: end, status: failed }
    catch: [{ id: rescue, agent: work, task: rescued }]
  - { id: each, type: foreach, items: "[1, 2]", steps: [{ id: item, agent: work, task: "{{ item }}" }] }
  - { id: wait, agent: hold, task: x, safe: true }
  - { id: after, type: set, values: "{{ steps.left.output }} {{ steps.both.output.r }} {{ steps.fine.output }} {{ steps.rescue.output }} {{ steps.each.output }}" }
`,
    atKill: [
      "both:1 succeeded",
      "both:1/l/left:1 succeeded",
      "both:1/r/right:1 succeeded",
      "risky:1 succeeded",
      "risky:1/try/fine:1 succeeded",
      "risky:1/try/bad:1 failed",
      "risky:1/catch/rescue:1 succeeded",
      "each:1 succeeded",
      "each:1/[0]/item:1 succeeded",
      "each:1/[1]/item:1 succeeded",
      "wait:1 running",
    ],
  },
  approval,
  "approval, decided meanwhile": approval,
  timer: timer("1h"),
  "timer, not due yet": timer("3h"),
  retry: retry("1h"),
  "retry, not due yet": retry("3h"),
  cancelled: held,
} satisfies Record<string, Scenario>;

type Name = keyof typeof SCENARIOS;
const NAMES = Object.keys(SCENARIOS) as Name[];

const processes = new EngineProcesses();
const runs = new Map<Name, string>();
const runOf = (name: Name): string => runs.get(name) ?? "";
const effectsAtKill = new Map<Name, readonly string[]>();

/** How often an agent was started with a task. */
const count = (name: Name, effect: string): number =>
  processes.effects(runOf(name)).filter((line) => line === effect).length;

/** One process is in the middle of all of them when it is killed; then another one is started. */
beforeAll(async () => {
  processes.hold();
  for (const name of NAMES) runs.set(name, processes.submit(SCENARIOS[name].source, name));
  const first = await processes.start();
  const isInTheMiddle = (): void => {
    for (const name of NAMES)
      deepEqual(new Set(processes.shown(runOf(name))), new Set(SCENARIOS[name].atKill), name);
    ok(processes.effects(runOf("agent's task")).includes("begin expression"));
  };
  await vi.waitFor(isInTheMiddle, POLL);
  first.child.kill("SIGSTOP");
  processes.store.decide(runOf("approval, decided meanwhile"), undefined, {
    approved: true,
    comment: "meanwhile",
  });
  processes.store.requestCancel(runOf("cancelled"));
  await processes.kill(first);
  // It struck in the middle: every run is as it was, and said to be the dead process's own.
  isInTheMiddle();
  for (const name of NAMES) {
    equal(processes.store.get(runOf(name))?.owner, first.id);
    effectsAtKill.set(name, processes.effects(runOf(name)));
  }
  processes.release();
  // Two hours later, by its clock.
  await processes.start({ aheadMs: 2 * 3_600_000 });
}, PATIENCE_MS);
afterAll(async () => await processes[Symbol.asyncDispose]());

describe("after kill -9 in the middle of", { timeout: PATIENCE_MS }, () => {
  it("an agent step that is not safe, the run waits for a person, who can let it go on", async () => {
    const runId = runOf("agent");
    const waiting = await processes.until(runId, ({ status }) => status === "needs_attention");
    expect(waiting.reason).toBe(
      "The process ended while step second (agent hold) was running, and may have done part of the work already. Resume the run to start step second again from the beginning, or cancel the run. With `safe: true` a step starts again by itself.",
    );
    expect(processes.effects(runId)).toEqual(["begin work one", "end work one", "begin hold two"]);
    processes.store.resume(runId);
    expect(await processes.until(runId)).toMatchObject({ status: "succeeded", output: "three" });
    expect(processes.effects(runId).slice(3)).toEqual([
      "begin hold two",
      "end hold two",
      "begin work three",
      "end work three",
    ]);
    expect(processes.begun(runId)).toEqual({ "first:1": 1, "second:1": 2, "third:1": 1 });
    expect(() => processes.store.resume(runId)).toThrow("this one is succeeded");
  });

  it("an agent step that is not safe, a person can cancel the run instead", async () => {
    const runId = runOf("agent, given up");
    await processes.until(runId, ({ status }) => status === "needs_attention");
    processes.store.requestCancel(runId);
    expect((await processes.until(runId)).status).toBe("cancelled");
    expect(processes.shown(runId)).toEqual(["first:1 succeeded", "second:1 cancelled"]);
    expect(count("agent, given up", "begin hold two")).toBe(1);
  });

  it("an agent step that is safe, it runs again and nothing else does", async () => {
    const runId = runOf("safe agent");
    expect((await processes.until(runId)).status).toBe("succeeded");
    expect(processes.effects(runId)).toEqual([
      "begin work one",
      "end work one",
      "begin hold two",
      "begin hold two",
      "end hold two",
      "begin work three",
      "end work three",
    ]);
  });

  it("the making of an agent's task, which is before the agent, no person is needed", async () => {
    const runId = runOf("agent's task");
    expect(await processes.until(runId)).toMatchObject({ status: "succeeded", output: runId });
    expect(count("agent's task", "begin work one")).toBe(1);
  });

  it.each(["switch", "condition", "transform", "set", "end"] as const)(
    "a %s, it is computed again",
    async (name) => {
      const runId = runOf(name);
      expect((await processes.until(runId)).status).toBe("succeeded");
      expect(processes.effects(runId)).toEqual([
        "begin work one",
        "end work one",
        "begin expression",
        "begin expression",
      ]);
      expect(processes.begun(runId)).toMatchObject({ "first:1": 1, "s:1": 2 });
    },
  );

  it("a foreach, finished items do not run again", async () => {
    const runId = runOf("foreach");
    expect((await processes.until(runId)).output).toEqual(["a!", "b!", "c!", "d!"]);
    for (const item of ["a", "b", "c", "d"]) expect(count("foreach", `begin work ${item}`)).toBe(1);
    expect(count("foreach", "begin hold c")).toBe(2);
    const begun = processes.begun(runId);
    expect(begun["each:1/[2]/stop:1"]).toBe(2);
    expect(Object.values(begun).filter((times) => times > 1)).toHaveLength(1);
  });

  it("branches, finished ones do not run again, and their outputs are still known", async () => {
    expect((await processes.until(runOf("parallel"))).output).toBe("leftrightlast");
    expect(count("parallel", "begin work left")).toBe(1);
    expect(count("parallel", "begin work right")).toBe(1);
    expect(count("parallel", "begin hold last")).toBe(2);
  });

  it("branches of which one is not safe, the run waits for a person", async () => {
    const runId = runOf("parallel, half safe");
    const { status, reason } = await processes.until(runId, (run) => run.status !== "running");
    expect(status).toBe("needs_attention");
    expect(reason).toContain("while step right (agent hold-too) was running");
    expect(processes.effects(runId)).toEqual(effectsAtKill.get("parallel, half safe"));
  });

  it("what is done about a failure, the failure is not repeated", async () => {
    const runId = runOf("try");
    expect((await processes.until(runId)).output).toBe("as fine as seen fine");
    expect(count("try", "begin work fine")).toBe(1);
    expect(processes.begun(runId)).toMatchObject({ "risky:1/try/bad:1": 1, "risky:1": 1 });
  });

  it("what comes after steps with steps inside, the outputs of those are still known", async () => {
    const runId = runOf("compound steps before");
    expect((await processes.until(runId)).output).toBe('left right fine rescued ["1","2"]');
    const begun = processes.begun(runId);
    expect(begun["wait:1"]).toBe(2);
    expect(Object.values(begun).filter((times) => times > 1)).toHaveLength(1);
  });

  it("a wait for an approval, it waits on", async () => {
    const runId = runOf("approval");
    await processes.until(runOf("approval, decided meanwhile"));
    const isTaken = ({ owner }: { readonly owner: string | undefined }): boolean =>
      owner !== undefined;
    expect((await processes.until(runId, isTaken)).status).toBe("waiting_approval");
    processes.store.decide(runId, "ask", { approved: true, comment: "later" });
    expect((await processes.until(runId)).output).toBe("later");
    expect(processes.begun(runId)).toEqual({ "first:1": 1, "ask:1": 1, "then:1": 1 });
  });

  it("a wait for an approval, what was decided meanwhile counts", async () => {
    const runId = runOf("approval, decided meanwhile");
    expect((await processes.until(runId)).output).toBe("meanwhile");
    expect(processes.begun(runId)).toEqual({ "first:1": 1, "ask:1": 1, "then:1": 1 });
  });

  it("a timer, the time that has passed counts", async () => {
    const runId = runOf("timer");
    expect((await processes.until(runId)).status).toBe("succeeded");
    expect(processes.begun(runId)).toEqual({ "first:1": 1, "pause:1": 1, "then:1": 1 });
  });

  it("a pause between attempts, the time that has passed counts", async () => {
    const runId = runOf("retry");
    expect((await processes.until(runId)).status).toBe("succeeded");
    expect(processes.effects(runId)).toEqual([
      "begin fail-once x",
      "begin fail-once x",
      "end fail-once x",
    ]);
  });

  it.each(["timer, not due yet", "retry, not due yet"] as const)(
    "a wait (%s), it waits for what is left",
    async (name) => {
      const runId = runOf(name);
      const dueMs = processes.store.steps(runId).at(-1)?.data.dueMs;
      // Both of its kind were taken by the same process at the same time.
      await processes.until(runOf("timer"));
      await processes.until(runOf("retry"));
      expect(processes.shown(runId)).toEqual(SCENARIOS[name].atKill);
      expect(processes.effects(runId)).toEqual(effectsAtKill.get(name));
      expect(processes.store.steps(runId).at(-1)?.data.dueMs).toBe(dueMs);
      processes.store.requestCancel(runId);
      expect((await processes.until(runId)).status).toBe("cancelled");
    },
  );

  it("a run that is being cancelled, it is cancelled", async () => {
    const runId = runOf("cancelled");
    expect((await processes.until(runId)).status).toBe("cancelled");
    expect(processes.effects(runId)).toEqual(effectsAtKill.get("cancelled"));
  });
});

it(
  "a process that is asked to end leaves its runs to the next one at once",
  { timeout: PATIENCE_MS },
  async () => {
    await using own = new EngineProcesses({ deadAfterMs: 60_000 });
    own.hold();
    const safe = own.submit("steps: [{ id: a, agent: hold, task: x, safe: true }]");
    const pause = own.submit("steps: [{ id: a, type: timer, seconds: 1 }]");
    const first = await own.start();
    await expect.poll(() => [...own.shown(safe), ...own.shown(pause)], POLL).toHaveLength(2);
    await own.kill(first, "SIGTERM");
    for (const runId of [safe, pause]) expect(own.store.get(runId)?.owner).toBeUndefined();
    own.release();
    await own.start();
    for (const runId of [safe, pause]) expect((await own.until(runId)).status).toBe("succeeded");
    expect(own.effects(safe)).toEqual(["begin hold x", "begin hold x", "end hold x"]);
  },
);
