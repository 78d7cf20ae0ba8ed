/** Every limit of an agent's settings, read back from inside a real sandbox. */
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, expect, it } from "vitest";
import { type TestAgent, ToolFixture } from "../testing/tool-fixture.ts";

let fixture: ToolFixture;
beforeAll(async () => {
  fixture = await ToolFixture.start();
});
afterAll(async () => {
  await fixture[Symbol.asyncDispose]();
});

const LIMITS = {
  cpu_millicores: 500,
  memory_mb: 96,
  pids: 40,
  workspace_mb: 24,
};

async function shell(agent: TestAgent, cmd: string): Promise<string> {
  const {
    stdout = "",
    stderr,
    exit_code,
  } = await agent.call("sandbox_exec", {
    cmd: ["bash", "-c", cmd],
  });
  if (exit_code !== 0) throw new Error(`exit code ${exit_code}: ${stderr}`);
  return stdout.trim();
}

it("cpu_millicores, memory_mb, pids and workspace_mb are enforced", async () => {
  const agent = fixture.agent({ mode: "code", limits: LIMITS });
  const opened = await agent.call("sandbox_open");
  expect(opened.limits).toEqual(LIMITS);

  // A 24 MiB disk has less usable space than that, and accepts no more.
  const sizeKb = Number(await shell(agent, "df -k --output=size /workspace | tail -1"));
  expect(sizeKb).toBeLessThanOrEqual(24 * 1024);
  expect(sizeKb).toBeGreaterThan(16 * 1024);
  const full = await agent.call("sandbox_exec", { cmd: "head -c 30M /dev/zero > large" });
  expect(full.stderr).toMatch(/No space left on device/);

  const fits = await agent.call("sandbox_exec", {
    cmd: ["python3", "-c", "bytearray(40 << 20); print('fits')"],
  });
  expect(fits).toMatchObject({ exit_code: 0, stdout: "fits\n" });
  const hungry = await agent.call("sandbox_exec", {
    cmd: ["python3", "-c", "bytearray(120 << 20)"],
  });
  expect(hungry).toMatchObject({ exit_code: 137, end_reason: "oom" });
  expect(hungry.error).toContain("96 MiB");

  const spawn = `import subprocess
started = []
try:
    while True: started.append(subprocess.Popen(["sleep", "600"]))
except OSError as error:
    print(len(started), error.strerror)
for process in started: process.kill()`;
  const [count, ...reason] = (await shell(agent, `python3 -c '${spawn}'`)).split(" ");
  expect(reason.join(" ")).toBe("Resource temporarily unavailable");
  expect(Number(count)).toBeGreaterThan(20);
  expect(Number(count)).toBeLessThan(40);

  // With half a processor, one second of computing takes two.
  const burn = `import time
wall, cpu = time.monotonic(), time.process_time()
while time.process_time() - cpu < 1: pass
print((time.monotonic() - wall) / (time.process_time() - cpu))`;
  const ratio = Number(await shell(agent, `python3 -c '${burn}'`));
  expect(ratio).toBeGreaterThan(1.7);
});

it("compute mode has the same limits, and reports them", async () => {
  const agent = fixture.agent({ runtime: "python", limits: LIMITS, timeout_seconds: 7 });
  const code = `import os
disk = os.statvfs("/work")
print(disk.f_blocks * disk.f_frsize // 1024)
bytearray(120 << 20)`;
  const result = await agent.call("sandbox_run", { code });
  expect(result).toMatchObject({ ok: false, exit_code: 137, end_reason: "oom" });
  expect(Number(result.stdout)).toBeLessThanOrEqual(24 * 1024);
  expect(result.limits).toMatchObject({ ...LIMITS, timeout_seconds: 7, network: false });
});

it("timeout_seconds applies to commands without a timeout", async () => {
  for (const key of ["timeout_seconds", "exec_timeout_seconds"]) {
    const agent = fixture.agent({ mode: "code", [key]: 1 });
    const result = await agent.call("sandbox_exec", { cmd: "sleep 1000" });
    expect(result).toMatchObject({ exit_code: 124, timed_out: true });
    expect(result.error).toContain("timeout of 1 s");
  }
  const compute = fixture.agent({ runtime: "bash", timeout_seconds: 1 });
  const code = "echo begun; sleep 1000";
  expect(await compute.call("sandbox_run", { code })).toMatchObject({
    ok: false,
    exit_code: 124,
    timed_out: true,
    end_reason: "timeout",
    stdout: "begun\n",
  });
});

it("limits.timeout_seconds is the idle timeout in code mode and the run's timeout in compute mode", async () => {
  const agent = fixture.agent({ mode: "code", limits: { timeout_seconds: 1 } });
  // Use does not end at the idle timeout.
  expect(await agent.call("sandbox_exec", { cmd: "sleep 2; echo used" })).toMatchObject({
    stdout: "used\n",
  });
  const { sandbox_id } = await agent.call("sandbox_open");
  expect((await fixture.client.getSession(sandbox_id)).ttlSeconds).toBe(1);
  while ((await fixture.statusOf(sandbox_id)) !== "expired") await sleep(100);

  const compute = fixture.agent({ runtime: "bash", limits: { timeout_seconds: 1 } });
  expect(await compute.call("sandbox_run", { code: "sleep 1000" })).toMatchObject({
    timed_out: true,
    limits: { timeout_seconds: 1 },
  });
});

it("profile root runs as root of the sandbox, and restricted does not", async () => {
  const id = async (profile: string): Promise<string> =>
    await shell(fixture.agent({ mode: "code", profile }), "id -u");
  expect(await id("root")).toBe("0");
  expect(await id("restricted")).toBe("1000");
});

it("a network that the administrator does not allow is missing, and sandbox_open says so", async () => {
  const agent = fixture.agent({ mode: "code", allow_network: true });
  expect(await agent.call("sandbox_open")).toMatchObject({
    network: false,
    network_note: expect.stringContaining("administrator") as string,
  });
  expect(
    await shell(agent, "ls /sys/class/net 2>/dev/null || cut -d: -f1 /proc/net/dev | tail -n +3"),
  ).toBe("lo");
  const allowed = fixture.agent(
    { mode: "code", network: { enabled: true } },
    { policy: { allowNetwork: true } },
  );
  await expect(allowed.call("sandbox_open")).rejects.toMatchObject({
    code: "REFUSED",
    message: expect.stringContaining("sandboxes have no network here") as string,
  });
});
