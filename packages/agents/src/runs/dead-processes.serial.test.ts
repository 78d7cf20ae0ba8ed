/**
 * Services that are killed, stopped, or share one database leave no run and no sandbox behind.
 */
import { setTimeout } from "node:timers/promises";
import { afterAll, beforeAll, expect, test } from "vitest";
import { TestDaemon } from "../../../../tests/support/test-daemon.ts";
import { loadConfig } from "../config.ts";
import { agent } from "../testing/agent-fixture.ts";
import { ServiceProcesses } from "../testing/service-processes.ts";
import type { ServiceProcess } from "../testing/service-processes.ts";

const AGENTS = { coder: agent("sandbox: { mode: code }"), talker: agent("") };
/** Renewed every second; the daemon ends the sandbox of a dead process after this time. */
const LEASE_SECONDS = 4;

let daemon: TestDaemon;
beforeAll(async () => (daemon = await TestDaemon.start()));
afterAll(async () => await daemon[Symbol.asyncDispose]());

async function runningSession(runId: string): Promise<{ status: string } | undefined> {
  const { body } = await daemon.call<{ key?: string; status: string }[]>("GET", "/v1/sessions");
  return body.find(({ key, status }) => key === `agent:${runId}:default` && status === "running");
}

const FOREGROUND = { command: "echo working; sleep 600", timeout_seconds: 600 };
const BACKGROUND = { command: "echo working; sleep 600", stream: true };

/** A run that works in its sandbox for longer than any test. */
async function startWorking(
  { client }: ServiceProcess,
  services: ServiceProcesses,
  work: object = FOREGROUND,
): Promise<string> {
  services.model.play([
    { calls: [{ name: "sandbox_exec", arguments: work }] },
    { text: "waiting", hang: true },
  ]);
  const id = await client.execute("coder", { task: "work" });
  for await (const { type } of client.events(id)) {
    expect(type).not.toBe("run_ended");
    if (type === "tool_output" || type === "tool_result") break;
  }
  expect(await runningSession(id)).toMatchObject({ status: "running" });
  return id;
}

test.for([
  ["a command that it waits for", FOREGROUND],
  ["a command that it started", BACKGROUND],
] as const)("a sandbox with %s is ended by the daemon alone after kill -9", async ([, work]) => {
  await using services = await ServiceProcesses.create({
    agents: AGENTS,
    daemon,
    leaseSeconds: LEASE_SECONDS,
  });
  const service = await services.start();
  const id = await startWorking(service, services, work);
  // Longer than the lease: a live process keeps its sandbox.
  await setTimeout(LEASE_SECONDS * 1000 + 1500);
  expect(await runningSession(id)).toMatchObject({ status: "running" });
  await service.end("SIGKILL");
  const killedMs = performance.now();
  while ((await runningSession(id)) !== undefined) await setTimeout(50);
  const seconds = ((performance.now() - killedMs) / 1000).toFixed(1);
  process.stdout.write(`gone ${seconds} s after kill -9, lease ${LEASE_SECONDS} s\n`);
});

test("the usual lease guarantees that sandboxes of dead processes are gone within 5 minutes", async () => {
  const { leaseSeconds } = await loadConfig({ dir: "/tmp", env: {} });
  expect(leaseSeconds).toBeLessThanOrEqual(240);
  await expect(
    loadConfig({ dir: "/tmp", env: { SANDKASTEN_AGENTS_LEASE_SECONDS: "301" } }),
  ).rejects.toThrow(/from 4 to 280/);
});

test("another process fails the runs of a dead one and ends their sandboxes at once", async () => {
  await using services = await ServiceProcesses.create({
    agents: AGENTS,
    daemon,
    heartbeatMs: 6000,
  });
  const [one, other] = [await services.start(), await services.start()];
  const id = await startWorking(one, services);
  await one.end("SIGKILL");
  const events = await Array.fromAsync(other.client.events(id));
  expect(events.at(-1)).toMatchObject({ type: "run_ended", status: "failed" });
  expect(await other.client.run(id)).toMatchObject({
    status: "failed",
    error: { code: "PROCESS_ENDED", message: "The process that ran it ended." },
  });
  while ((await runningSession(id)) !== undefined) await setTimeout(20);
});

test("a service that starts later fails the runs of a dead one, once", async () => {
  await using services = await ServiceProcesses.create({
    agents: AGENTS,
    daemon,
    heartbeatMs: 3000,
  });
  const first = await services.start();
  services.model.play([{ hang: true }]);
  const id = await first.client.execute("talker", { task: "x" });
  await first.end("SIGKILL");
  await setTimeout(3500);
  const [second, third] = await Promise.all([services.start(), services.start()]);
  const events = await Array.fromAsync(second.client.events(id));
  expect(events.filter(({ type }) => type === "run_ended")).toHaveLength(1);
  expect((await third.client.run(id)).status).toBe("failed");
});

test("a service that was stalled and continues finishes its runs", async () => {
  const heartbeatMs = 500;
  await using services = await ServiceProcesses.create({ agents: AGENTS, daemon, heartbeatMs });
  const service = await services.start();
  services.model.play([
    {
      calls: [{ name: "sandbox_exec", arguments: { command: "echo begun; sleep 2; echo ended" } }],
    },
    { text: "Finished." },
  ]);
  const id = await service.client.execute("coder", { task: "work" });
  for await (const { type } of service.client.events(id)) if (type === "tool_output") break;
  service.signal("SIGSTOP");
  await setTimeout(4 * heartbeatMs);
  service.signal("SIGCONT");
  const events = await Array.fromAsync(service.client.events(id));
  expect(events.at(-1)).toMatchObject({
    type: "run_ended",
    status: "succeeded",
    text: "Finished.",
  });
  expect(services.model.lastMessage?.content).toContain("ended");
});

test("a service that was stalled stops working on a run that another one has ended", async () => {
  await using services = await ServiceProcesses.create({
    agents: AGENTS,
    daemon,
    heartbeatMs: 6000,
  });
  const [one, other] = [await services.start(), await services.start()];
  services.model.play([{ hang: true }]);
  const id = await one.client.execute("talker", { task: "x" });
  while (services.model.requests.length === 0) await setTimeout(10);
  one.signal("SIGSTOP");
  const events = await Array.fromAsync(other.client.events(id));
  expect(events.at(-1)).toMatchObject({ error: { code: "PROCESS_ENDED" } });
  one.signal("SIGCONT");
  const { requests } = services.model;
  await expect.poll(() => requests[0]?.isClosed()).toBe(true);
  expect(requests).toHaveLength(1);
});

test("two processes share one database: each sees, follows and cancels the other's runs", async () => {
  await using services = await ServiceProcesses.create({ agents: AGENTS, daemon });
  const [one, other] = [await services.start(), await services.start()];
  const id = await startWorking(one, services);
  expect((await other.client.runs()).runs.map(({ run_id: runId }) => runId)).toEqual([id]);
  await other.client.cancel(id);
  const events = await Array.fromAsync(other.client.events(id));
  expect(events.at(-1)).toMatchObject({ type: "run_ended", status: "cancelled" });
  expect(await runningSession(id)).toBeUndefined();
});

test("a service that is stopped cancels its runs and leaves no sandbox", async () => {
  await using services = await ServiceProcesses.create({ agents: AGENTS, daemon });
  const [one, other] = [await services.start(), await services.start()];
  const id = await startWorking(one, services);
  expect(await one.end("SIGTERM")).toBe(0);
  expect(await runningSession(id)).toBeUndefined();
  expect(await other.client.run(id)).toMatchObject({
    status: "cancelled",
    error: { message: "The agent service was stopped." },
  });
});
