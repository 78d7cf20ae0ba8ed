/** Services that are killed or stopped in the middle of a workflow, with real sandboxes. */
import { setTimeout } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { TestDaemon } from "../../../../tests/support/test-daemon.ts";
import type { WorkflowRunBody } from "../client/index.ts";
import { ServiceProcesses } from "../testing/service-processes.ts";
import type { ServiceProcess } from "../testing/service-processes.ts";
import { byAgent, namedAgent } from "./testing/workflow-fixture.ts";

const PATIENCE_MS = 120_000;
/**
 * How soon a dead process is noticed; on a busy machine, loading models stalls a live one for
 * seconds.
 */
const HEARTBEAT_MS = 8000;
const LEASE_SECONDS = 5;

const AGENTS = {
  writer: namedAgent("writer", "sandbox: { mode: code }"),
  worker: namedAgent("worker", "sandbox: { mode: code }"),
};
const steps = (middle: string): string => `
steps:
  - { id: write, agent: writer, task: x }
  - ${middle}
  - { id: read, agent: worker, task: read }
`;
const WORKFLOWS = {
  "safe.yaml": steps("{ id: work, agent: worker, task: hang, safe: true }"),
  "unsafe.yaml": steps("{ id: work, agent: worker, task: hang }"),
  "approval.yaml": steps("{ id: ask, type: approval }"),
};

let daemon: TestDaemon;
beforeAll(async () => (daemon = await TestDaemon.start()), PATIENCE_MS);
afterAll(async () => await daemon[Symbol.asyncDispose]());

interface SessionBody {
  readonly id: string;
  readonly key?: string;
  readonly status: string;
  readonly ttl_seconds: number;
}

/** All sandboxes that a run ever had. */
async function sandboxesOf(runId: string): Promise<readonly SessionBody[]> {
  const { body } = await daemon.call<SessionBody[]>("GET", "/v1/sessions");
  return body.filter(({ key }) => key?.startsWith(`workflow:${runId}:`));
}

const isRunning = ({ status }: SessionBody): boolean => status === "running";
const exec = (command: string, how: object = { timeout_seconds: 600 }) => ({
  calls: [{ name: "sandbox_exec", arguments: { command, ...how } }],
});

interface ServicesOptions {
  readonly leaseSeconds?: number;
  /** The worker's command continues on its own, and its model does not answer. */
  readonly isBackground?: boolean;
}

/** `hang()` says whether the worker's command hangs. */
async function services(
  hang: () => boolean,
  { leaseSeconds, isBackground = false }: ServicesOptions = {},
): Promise<ServiceProcesses> {
  const made = await ServiceProcesses.create({
    agents: AGENTS,
    workflows: WORKFLOWS,
    daemon,
    heartbeatMs: HEARTBEAT_MS,
    ...(leaseSeconds !== undefined && { leaseSeconds }),
  });
  made.model.play((request) => {
    const results = request.messages.filter(({ role }) => role === "tool");
    const { stdout = "" } = JSON.parse(results.at(-1)?.content ?? "{}") as { stdout?: string };
    return byAgent({
      writer: [exec("echo written >> log"), { text: "done" }],
      worker: (task, turn) => {
        if (turn > 0) return isBackground ? { hang: true } : { text: stdout.trim() };
        if (task === "read") return exec("cat log");
        if (!hang()) return exec("echo again >> log; cat log");
        return exec("echo begun >> log; sleep 600", isBackground ? { stream: true } : undefined);
      },
    })(request);
  });
  return made;
}

async function until(
  { client }: ServiceProcess,
  runId: string,
  isWanted: (run: WorkflowRunBody) => boolean,
): Promise<WorkflowRunBody> {
  for (;;) {
    const run = await client.workflowRun(runId);
    if (isWanted(run)) return run;
    await setTimeout(50);
  }
}

/** Starts a run and waits until the command in its sandbox has started. */
async function startWorking(service: ServiceProcess, workflow: string): Promise<string> {
  const runId = await service.client.runWorkflow(workflow);
  await until(service, runId, ({ steps: begun = [] }) => begun.at(-1)?.id === "work");
  const [sandbox] = await sandboxesOf(runId);
  for (;;) {
    const { stdout } = (await daemon.exec(sandbox?.id ?? "", ["cat", "/workspace/log"])) as {
      stdout: string;
    };
    if (stdout === "written\nbegun\n") return runId;
    await setTimeout(50);
  }
}

describe("after kill -9 of the service", { timeout: PATIENCE_MS }, () => {
  test("a safe step runs again in the same sandbox, and one that is not safe waits for a person", async () => {
    let hangs = true;
    await using made = await services(() => hangs);
    const first = await made.start();
    const safe = await startWorking(first, "safe");
    const unsafe = await startWorking(first, "unsafe");
    await first.end("SIGKILL");
    hangs = false;
    const second = await made.start();

    const done = await until(second, safe, ({ status }) => status === "succeeded");
    expect(done.output).toBe("written\nbegun\nagain");
    expect(done.steps?.map(({ id, attempt }) => [id, attempt])).toEqual([
      ["write", 1],
      ["work", 2],
      ["read", 1],
    ]);
    const { runs } = await second.client.runs();
    const ofSafe = runs.filter(({ workflow_run_id: id }) => id === safe);
    expect(ofSafe.map(({ agent_name: name, status }) => `${name} ${status}`)).toEqual([
      "worker succeeded",
      "worker succeeded",
      "worker failed",
      "writer succeeded",
    ]);

    const waiting = await until(second, unsafe, ({ status }) => status === "needs_attention");
    expect(waiting["reason"]).toMatch(
      /^The process ended while step work \(agent worker\) was running/,
    );
    expect(waiting.steps?.map(({ id, status }) => [id, status])).toEqual([
      ["write", "succeeded"],
      ["work", "running"],
    ]);
    // Its sandbox waits with it, for longer than the lease of an active run.
    expect(await sandboxesOf(unsafe)).toMatchObject([{ status: "running", ttl_seconds: 3600 }]);
    await second.client.resume(unsafe);
    const resumed = await until(second, unsafe, ({ status }) => status === "succeeded");
    expect(resumed.output).toBe("written\nbegun\nagain");

    for (const runId of [safe, unsafe])
      expect(await sandboxesOf(runId)).toMatchObject([{ status: "destroyed" }]);
  });

  test.for([
    ["waits for", false],
    ["started", true],
  ] as const)(
    "for good, the daemon alone ends the sandboxes of the run, also with a command that an agent %s",
    async ([, isBackground]) => {
      await using made = await services(() => true, { leaseSeconds: LEASE_SECONDS, isBackground });
      const service = await made.start();
      const runId = await startWorking(service, "safe");
      await service.end("SIGKILL");
      const killedMs = performance.now();
      while ((await sandboxesOf(runId)).some(isRunning)) await setTimeout(50);
      const seconds = ((performance.now() - killedMs) / 1000).toFixed(1);
      process.stdout.write(`gone ${seconds} s after kill -9, the lease is ${LEASE_SECONDS} s\n`);
      expect(await sandboxesOf(runId)).toMatchObject([{ status: "expired" }]);
    },
  );
});

test(
  "a service that is stopped leaves the sandboxes of its runs to the next one",
  { timeout: PATIENCE_MS },
  async () => {
    await using made = await services(() => false);
    const first = await made.start();
    const { run_id: runId } = await first.client.runWorkflowAndWait("approval");
    expect(await first.end("SIGTERM")).toBe(0);
    const [before] = await sandboxesOf(runId);
    expect(before?.status).toBe("running");
    const second = await made.start();
    await second.client.approve(runId);
    const done = await until(second, runId, ({ status }) => status === "succeeded");
    expect(done.output).toBe("written");
    expect(await sandboxesOf(runId)).toMatchObject([{ id: before?.id, status: "destroyed" }]);
  },
);
