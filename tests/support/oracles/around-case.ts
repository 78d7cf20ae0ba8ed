/** Runs one hostile case with oracles L and S around it. */
import type { SandboxSpec } from "@sandkasten/daemon";
import type { SandboxMachine, TestSandbox } from "../sandbox-machine.ts";
import { HostSnapshot } from "./no-leak.ts";
import type { LeakOptions } from "./no-leak.ts";
import { Sentinel } from "./sentinel.ts";

export interface CaseTools {
  readonly sentinel: Sentinel;
  /** A sandbox whose output is watched; it is destroyed after the case. */
  readonly sandbox: (spec?: Partial<SandboxSpec>) => Promise<TestSandbox>;
}

/** Creates what a machine creates once and keeps, so a snapshot includes it. */
export async function warmUp(machine: SandboxMachine): Promise<void> {
  const { id } = await machine.sandbox();
  await machine.destroy(id);
}

export async function aroundCase<T>(
  machine: SandboxMachine,
  attack: (tools: CaseTools) => Promise<T>,
  options: LeakOptions = {},
): Promise<T> {
  await using sentinel = await Sentinel.plant();
  const before = await HostSnapshot.take(machine);
  const made: string[] = [];
  const tools: CaseTools = {
    sentinel,
    sandbox: async (spec) => {
      const sandbox = await machine.sandbox(spec);
      made.push(sandbox.id);
      return sentinel.watchOver(sandbox);
    },
  };
  let result: T;
  try {
    result = await attack(tools);
  } finally {
    for (const id of made) await machine.destroy(id);
  }
  await sentinel.expectUnchanged();
  await before.expectUnchanged(options);
  return result;
}
