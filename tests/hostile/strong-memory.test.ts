/** Threat: exhausting memory. On gVisor, system calls that allocate gigabytes each and cannot be interrupted. */
import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { RUNTIME_DIR, whyNoGvisor } from "../support/gvisor.ts";
import { TestDaemon } from "../support/test-daemon.ts";

/** gVisor's kernel fills the buffer, so no signal is taken until it is full. */
const ONE_GREAT_READ = `import os, time
held = os.read(os.open("/dev/zero", 0), 0x7ffff000)
time.sleep(60)`;
/** Together more than all of gVisor may have; each is killed only when its own call has ended. */
const MANY_GREAT_READS = `import os
for _ in range(8):
    if os.fork() == 0:
        while True: os.read(os.open("/dev/zero", 0), 0x7ffff000)
for _ in range(8): os.wait()`;

let daemon: TestDaemon;
beforeEach((context) => {
  context.skip(whyNoGvisor() !== undefined, whyNoGvisor());
});
beforeAll(async () => {
  if (whyNoGvisor() === undefined) daemon = await TestDaemon.start({ settings: { RUNTIME_DIR } });
});
afterAll(() => daemon?.[Symbol.asyncDispose]());

test("code that allocates 2 GiB in one call is killed, and nothing else", async () => {
  const id = await daemon.open({ isolation: "strong" });
  await daemon.exec(id, "KEPT=yes");
  expect(await daemon.exec(id, ["python3", "-c", ONE_GREAT_READ])).toMatchObject({
    end_reason: "oom",
    exit_code: 137,
  });
  expect(await daemon.exec(id, "echo $KEPT")).toMatchObject({
    output: "yes\n",
    shell_restarted: false,
  });
});

test("a session whose code allocates it in many calls at once reports that memory ran out", async () => {
  const id = await daemon.open({ isolation: "strong" });
  const neighbour = await daemon.open({ isolation: "strong" });
  await daemon.exec(neighbour, "KEPT=yes");
  expect(await daemon.exec(id, ["python3", "-c", MANY_GREAT_READS])).toMatchObject({
    error_code: "SANDBOX_UNREACHABLE",
    details: { end_reason: "sandbox_gone", exit_code: null },
  });
  expect((await daemon.call("GET", `/v1/sessions/${id}`)).body).toMatchObject({
    status: "crashed",
    end_reason: "its sandbox ran out of memory",
  });
  expect(await daemon.exec(id, "true")).toMatchObject({
    error_code: "CONFLICT",
    message: expect.stringContaining("its sandbox ran out of memory") as string,
  });
  expect(await daemon.exec(neighbour, "echo $KEPT")).toMatchObject({ output: "yes\n" });
});

test("a session whose sandbox was killed from outside does not claim that", async () => {
  const before = new Set(await readdir(join(daemon.dataDir, "sandboxes")));
  const id = await daemon.open({ isolation: "strong" });
  const [own = ""] = (await readdir(join(daemon.dataDir, "sandboxes"))).filter(
    (name) => !before.has(name),
  );
  const notes = await readFile(join(daemon.dataDir, "sandboxes", own, "sandbox.json"), "utf8");
  process.kill((JSON.parse(notes) as { pid: number }).pid, "SIGKILL");
  expect(await daemon.exec(id, "true")).toMatchObject({ error_code: expect.anything() as string });
  const ended = async (): Promise<unknown> =>
    (await daemon.call("GET", `/v1/sessions/${id}`)).body["end_reason"];
  await expect.poll(ended).toBe("its sandbox died");
});
