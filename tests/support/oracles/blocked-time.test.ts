/** Which waits count as blocking, on an idle machine and on one without a free processor. */
import { spawn } from "node:child_process";
import type { ChildProcess } from "node:child_process";
import { once } from "node:events";
import { availableParallelism } from "node:os";
import { afterEach, describe, expect, it } from "vitest";
import { BlockedTime } from "./blocked-time.ts";

const started: ChildProcess[] = [];
afterEach(() => {
  for (const child of started.splice(0)) child.kill("SIGKILL");
});

function run(script: string): ChildProcess {
  const child = spawn(process.execPath, ["-e", script], {
    stdio: ["ignore", "pipe", "inherit", "ipc"],
  });
  started.push(child);
  return child;
}

/** How long a process is blocked while it does this, once. */
async function blockedBy(work: string): Promise<number> {
  const child = run(`
    process.on("message", async () => { ${work}; process.send("done"); });
    process.send("idle");
  `);
  await once(child, "message");
  await using blocked = await BlockedTime.watch(child.pid ?? 0);
  child.send("begin");
  await once(child, "message");
  return blocked.ms;
}

const LOCK = "Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1000)";
const CHILD = 'require("node:child_process").execFileSync("sleep", ["1"])';
/** Ends by itself if this process is killed. */
const LOAD = "for (const end = Date.now() + 20_000; Date.now() < end;);";
const IDLE = "await new Promise((resolve) => setTimeout(resolve, 500))";
const BUSY = "for (const end = Date.now() + 500; Date.now() < end;);";

describe.each([
  ["an idle machine", 0],
  ["a busy one", 2 * availableParallelism()],
])("on %s", (_, loops) => {
  it.each([
    ["a lock", LOCK],
    ["a child", CHILD],
  ])("waiting for %s is blocking", async (_what, work) => {
    for (let n = 0; n < loops; n++) run(LOAD);
    expect(await blockedBy(work)).toBeGreaterThan(300);
  });

  it.each([
    ["being idle", IDLE],
    ["being busy", BUSY],
  ])("%s is not", async (_what, work) => {
    for (let n = 0; n < loops; n++) run(LOAD);
    expect(await blockedBy(work)).toBeLessThan(100);
  });
});
