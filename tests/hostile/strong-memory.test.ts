/** Threat: exhausting memory. On gVisor, one system call that takes more memory than all of gVisor may have. */
import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { RUNTIME_DIR, whyNoGvisor } from "../support/gvisor.ts";
import { TestDaemon } from "../support/test-daemon.ts";

/** gVisor's kernel fills the buffer, so no signal is handled until it is full. */
const ONE_GREAT_READ = `python3 -c "import os; os.read(os.open('/dev/zero', 0), 0x7ffff000)"`;

let daemon: TestDaemon;
beforeEach((context) => {
  context.skip(whyNoGvisor() !== undefined, whyNoGvisor());
});
beforeAll(async () => {
  if (whyNoGvisor() === undefined) daemon = await TestDaemon.start({ settings: { RUNTIME_DIR } });
});
afterAll(() => daemon?.[Symbol.asyncDispose]());

test("a session whose code takes gigabytes in one call says that memory ran out", async () => {
  const id = await daemon.open({ isolation: "strong" });
  const neighbour = await daemon.open({ isolation: "strong" });
  await daemon.exec(neighbour, "KEPT=yes");
  const { status, body } = await daemon.call("POST", `/v1/sessions/${id}/exec`, {
    cmd: ONE_GREAT_READ,
  });
  const { body: session } = await daemon.call("GET", `/v1/sessions/${id}`);
  // If a future gVisor stops in the middle of a call, only the process dies.
  if (status === 200) {
    expect(body).toMatchObject({ end_reason: "oom", exit_code: 137 });
    expect(session).toMatchObject({ status: "running" });
  } else {
    expect(body).toMatchObject({
      error_code: "SANDBOX_UNREACHABLE",
      details: { end_reason: "sandbox_gone", exit_code: null },
    });
    expect(session).toMatchObject({
      status: "crashed",
      end_reason: "its sandbox ran out of memory",
    });
    expect(await daemon.exec(id, "true")).toMatchObject({
      error_code: "CONFLICT",
      message: expect.stringContaining("its sandbox ran out of memory") as string,
    });
  }
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
  await expect.poll(ended, { timeout: 30_000 }).toBe("its sandbox died");
});
