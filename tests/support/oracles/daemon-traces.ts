/** Oracle L for a daemon: what its sandboxes leave on the host, apart from its own files. */
import { setTimeout as sleep } from "node:timers/promises";
import { SandboxMachine } from "../sandbox-machine.ts";
import type { TestDaemon } from "../test-daemon.ts";
import { scopeOf, tracesOf } from "./machine-traces.ts";

/** A daemon's own files: database, journals, lock, key. */
const OWN_FILES = /^((sandkasten|events|keys)\.db|journal|daemon\.lock|api-key|uploads)/u;
const SETTLE_MS = 3_000;
const POLL_MS = 50;

/** Every trace as a line. */
export async function daemonTraces(daemon: TestDaemon): Promise<readonly string[]> {
  // Only for inspection: a machine that is not disposed removes nothing.
  const machine = await SandboxMachine.start({ dataDir: daemon.dataDir });
  const traces = await tracesOf(await scopeOf(machine));
  const listed = (await machine.backend.list()).map(({ id, state }) => `${id} ${state}`);
  return [
    ...listed.map((line) => `sandbox ${line}`),
    ...Object.entries(traces).flatMap(([kind, lines]) =>
      lines
        .filter((line) => kind !== "data directory" || !OWN_FILES.test(line))
        .map((line) => `${kind}: ${line}`),
    ),
  ].toSorted();
}

/** Throws with the differences that do not disappear by themselves. */
export async function expectTraces(daemon: TestDaemon, before: readonly string[]): Promise<void> {
  const deadline = performance.now() + SETTLE_MS;
  for (;;) {
    const now = await daemonTraces(daemon);
    const lines = [
      ...now.filter((line) => !before.includes(line)).map((line) => `+ ${line}`),
      ...before.filter((line) => !now.includes(line)).map((line) => `- ${line}`),
    ];
    if (lines.length === 0) return;
    if (performance.now() > deadline)
      throw new Error(`The host is not as it was before:\n  ${lines.join("\n  ")}`);
    await sleep(POLL_MS);
  }
}
