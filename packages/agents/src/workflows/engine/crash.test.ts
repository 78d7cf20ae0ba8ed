/** A process that is killed in the middle of every kind of step, and how the next one continues. */
import { deepEqual, equal, ok } from "node:assert/strict";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { CRASH_SCENARIOS } from "../testing/crash-scenarios.ts";
import { EngineProcesses } from "../testing/engine-processes.ts";

const PATIENCE_MS = 120_000;
const POLL = { timeout: 60_000, interval: 10 };

type Name = keyof typeof CRASH_SCENARIOS;
const NAMES = Object.keys(CRASH_SCENARIOS) as Name[];

const processes = new EngineProcesses();
const runs = new Map<Name, string>();
const runOf = (name: Name): string => runs.get(name) ?? "";
const effectsAtKill = new Map<Name, readonly string[]>();

/** How often an agent was started with a task. */
const count = (name: Name, effect: string): number =>
  processes.effects(runOf(name)).filter((line) => line === effect).length;

/** One process is in the middle of all scenarios when it is killed; then another one is started. */
beforeAll(async () => {
  processes.hold();
  for (const name of NAMES) runs.set(name, processes.submit(CRASH_SCENARIOS[name].source, name));
  const first = await processes.start();
  const isInTheMiddle = (): void => {
    for (const name of NAMES)
      deepEqual(new Set(processes.shown(runOf(name))), new Set(CRASH_SCENARIOS[name].atKill), name);
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
  // The kill came in the middle: every run is unchanged, and still belongs to the dead process.
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
  it("an agent step that is not safe, the run waits for a person, who can resume it", async () => {
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

  it("the rendering of an agent's task, before the agent starts, no person is needed", async () => {
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

  it("branches, one of which is not safe, the run waits for a person", async () => {
    const runId = runOf("parallel, half safe");
    const { status, reason } = await processes.until(runId, (run) => run.status !== "running");
    expect(status).toBe("needs_attention");
    expect(reason).toContain("while step right (agent hold-too) was running");
    expect(processes.effects(runId)).toEqual(effectsAtKill.get("parallel, half safe"));
  });

  it("a catch block, the failure is not repeated", async () => {
    const runId = runOf("try");
    expect((await processes.until(runId)).output).toBe("as fine as seen fine");
    expect(count("try", "begin work fine")).toBe(1);
    expect(processes.begun(runId)).toMatchObject({ "risky:1/try/bad:1": 1, "risky:1": 1 });
  });

  it("a step after steps with nested steps, their outputs are still known", async () => {
    const runId = runOf("compound steps before");
    expect((await processes.until(runId)).output).toBe('left right fine rescued ["1","2"]');
    const begun = processes.begun(runId);
    expect(begun["wait:1"]).toBe(2);
    expect(Object.values(begun).filter((times) => times > 1)).toHaveLength(1);
  });

  it("a wait for an approval, it continues to wait", async () => {
    const runId = runOf("approval");
    await processes.until(runOf("approval, decided meanwhile"));
    const isTaken = ({ owner }: { readonly owner: string | undefined }): boolean =>
      owner !== undefined;
    expect((await processes.until(runId, isTaken)).status).toBe("waiting_approval");
    processes.store.decide(runId, "ask", { approved: true, comment: "later" });
    expect((await processes.until(runId)).output).toBe("later");
    expect(processes.begun(runId)).toEqual({ "first:1": 1, "ask:1": 1, "then:1": 1 });
  });

  it("a wait for an approval, a decision in the meantime counts", async () => {
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
    "a wait (%s), it waits for the remaining time",
    async (name) => {
      const runId = runOf(name);
      const dueMs = processes.store.steps(runId).at(-1)?.data.dueMs;
      // The same process took both runs with a wait at the same time.
      await processes.until(runOf("timer"));
      await processes.until(runOf("retry"));
      expect(processes.shown(runId)).toEqual(CRASH_SCENARIOS[name].atKill);
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
