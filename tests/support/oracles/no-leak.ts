/** Oracle L: after a case, the host is as it was before. */
import { readdir, readlink } from "node:fs/promises";
import { setTimeout as sleep } from "node:timers/promises";
import type { SandboxMachine } from "../sandbox-machine.ts";
import { scopeOf, tracesOf } from "./machine-traces.ts";
import type { Scope, Traces } from "./machine-traces.ts";

const MIB = 1024 * 1024;
/** The kernel frees loop devices, cgroups and namespaces a little after their last user is gone. */
const SETTLE_MS = 10_000;
const POLL_MS = 25;
const DESCRIPTORS = "descriptors of this process";

export interface LeakOptions {
  /** How much this process's reachable memory may grow: caches, compiled code, test results. */
  readonly memoryToleranceBytes?: number;
  readonly settleMs?: number;
}

/** The state of the host, as far as it concerns one machine under test. */
export class HostSnapshot {
  readonly #machine: SandboxMachine;
  readonly #scope: Scope;
  readonly #traces: Traces;
  readonly #heldBytes: number;

  private constructor(machine: SandboxMachine, scope: Scope, traces: Traces) {
    this.#machine = machine;
    this.#scope = scope;
    this.#traces = traces;
    this.#heldBytes = heldBytes();
  }

  /** What a machine creates once and keeps (images, directories) must already exist: create a sandbox first. */
  static async take(machine: SandboxMachine): Promise<HostSnapshot> {
    const scope = await scopeOf(machine);
    return new HostSnapshot(machine, scope, await allTraces(machine, scope));
  }

  /** Throws with the differences that do not disappear by themselves. */
  async expectUnchanged(options: LeakOptions = {}): Promise<void> {
    const deadline = performance.now() + (options.settleMs ?? SETTLE_MS);
    for (;;) {
      const lines = differences(this.#traces, await allTraces(this.#machine, this.#scope));
      const grownBytes = heldBytes() - this.#heldBytes;
      if (grownBytes > (options.memoryToleranceBytes ?? 24 * MIB))
        lines.push(`memory of this process: + ${Math.round(grownBytes / MIB)} MiB`);
      if (lines.length === 0) return;
      if (performance.now() > deadline)
        throw new Error(`The host is not as it was before:\n  ${lines.join("\n  ")}`);
      await sleep(POLL_MS);
    }
  }
}

/**
 * Reachable memory, on the heap and in buffers. The resident size says little: it includes the
 * garbage of all files that share the process, and is not returned after a collection.
 */
export function heldBytes(): number {
  if (globalThis.gc === undefined) throw new Error("run the tests with node --expose-gc");
  globalThis.gc();
  // Another thread frees buffers after a collection; the next collection waits for it.
  globalThis.gc();
  const { heapUsed, external } = process.memoryUsage();
  return heapUsed + external;
}

async function allTraces(machine: SandboxMachine, scope: Scope): Promise<Traces> {
  const listed = await machine.backend.list();
  return {
    ...(await tracesOf(scope)),
    sandboxes: listed.map(({ id, state }) => `${id} ${state}`).toSorted(),
    [DESCRIPTORS]: await openDescriptors(),
  };
}

/** Sockets and pipes have numbers that change; how many there are does not. */
async function openDescriptors(): Promise<string[]> {
  const counts = new Map<string, number>();
  for (const fd of await readdir("/proc/self/fd")) {
    // The descriptor that listed the others is already closed.
    const target = await readlink(`/proc/self/fd/${fd}`).catch(() => undefined);
    if (target === undefined) continue;
    const kind = target.replace(/:\[\d+\]$/u, "");
    counts.set(kind, (counts.get(kind) ?? 0) + 1);
  }
  return [...counts].flatMap(([kind, count]) =>
    Array.from({ length: count }, (_, index) => `${kind} (${index + 1})`),
  );
}

function differences(before: Traces, after: Traces): string[] {
  return Object.keys(before).flatMap((kind) => {
    const old = new Set(before[kind]);
    const now = new Set(after[kind]);
    return [
      ...[...now.difference(old)].map((line) => `${kind}: + ${line}`),
      // A connection that was still closing when the snapshot was taken is not missing.
      ...(kind === DESCRIPTORS ? [] : [...old.difference(now)]).map((line) => `${kind}: - ${line}`),
    ];
  });
}
