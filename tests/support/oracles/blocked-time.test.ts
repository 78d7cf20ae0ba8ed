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

/** Returns when that many processes use all the processor time that they get. */
async function load(processes: number): Promise<void> {
  await Promise.all(
    Array.from({ length: processes }, async () => await once(run(LOAD), "message")),
  );
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
const WORKER = `
  const { Worker } = require("node:worker_threads");
  const done = new Int32Array(new SharedArrayBuffer(4));
  new Worker(\`
    const { workerData } = require("node:worker_threads");
    const used = () => Object.values(process.threadCpuUsage()).reduce((sum, part) => sum + part);
    while (used() < 300_000);
    Atomics.store(workerData, 0, 1);
    Atomics.notify(workerData, 0);
  \`, { eval: true, workerData: done });
  Atomics.wait(done, 0, 0);
`;
/** Ends by itself if this process is killed. */
const LOAD = 'process.send("busy"); for (const end = Date.now() + 20_000; Date.now() < end;);';
const IDLE = "await new Promise((resolve) => setTimeout(resolve, 500))";
const BUSY = "for (const end = Date.now() + 500; Date.now() < end;);";

describe.each([
  ["an idle machine", 0],
  ["a busy one", 2 * availableParallelism()],
])("on %s", (_, loops) => {
  it.each([
    ["a lock", LOCK],
    ["a child", CHILD],
    ["another thread's work", WORKER],
  ])("waiting for %s is blocking", async (_what, work) => {
    await load(loops);
    expect(await blockedBy(work)).toBeGreaterThan(200);
  });

  it.each([
    ["being idle", IDLE],
    ["being busy", BUSY],
  ])("%s is not", async (_what, work) => {
    await load(loops);
    expect(await blockedBy(work)).toBeLessThan(100);
  });
});

it("does not count that another thread waits for a processor", async () => {
  await load(4 * availableParallelism());
  const start = performance.now();
  const blocked = await blockedBy(WORKER);
  expect(blocked).toBeLessThan((performance.now() - start) / 2);
});
