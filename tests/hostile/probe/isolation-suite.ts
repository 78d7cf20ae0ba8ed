/** Shared by all isolation suites: a machine with one runtime, and attackers in it. */
import { afterAll, beforeAll } from "vitest";
import type { SandboxProfile } from "@sandkasten/daemon";
import { aroundCase, warmUp } from "../../support/oracles/around-case.ts";
import type { CaseTools } from "../../support/oracles/around-case.ts";
import { embeddedRuntimeUnderTest } from "../../support/runtime-under-test.ts";
import { SandboxMachine } from "../../support/sandbox-machine.ts";
import { arm, buildProbes } from "./build-probes.ts";
import type { Attacker, Probes } from "./build-probes.ts";
import { skipUnlessUsable } from "./usable-runtime.ts";

export interface IsolationTools extends CaseTools {
  readonly machine: SandboxMachine;
  /** A second sandbox with the programs in it. */
  readonly another: () => Promise<Attacker>;
}

/** One attacker, with oracles L and S around it. */
export type Attacked = (
  attack: (attacker: Attacker, tools: IsolationTools) => Promise<void>,
  profile?: SandboxProfile,
) => Promise<void>;

/** Registers the hooks of the current suite. */
export function isolationSuite(): Attacked {
  const reason = skipUnlessUsable();
  let machine: SandboxMachine;
  let probes: Probes;
  beforeAll(async () => {
    if (reason !== undefined) return;
    probes = await buildProbes();
    machine = await SandboxMachine.start({ runtime: embeddedRuntimeUnderTest() });
    await warmUp(machine);
  });
  afterAll(async () => {
    await machine?.[Symbol.asyncDispose]();
  });
  return (attack, profile = "restricted") =>
    aroundCase(machine, async (tools) =>
      attack(await arm(await tools.sandbox({ profile }), probes), {
        ...tools,
        machine,
        another: async () => arm(await tools.sandbox(), probes),
      }),
    );
}
