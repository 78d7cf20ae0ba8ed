/** A machine for cases that exhaust resources: an attacker, and a neighbour that must not notice. */
import type { SandboxLimits, SandboxSpec } from "@sandkasten/daemon";
import type { TestContext } from "vitest";
import { aroundCase, warmUp } from "../../support/oracles/around-case.ts";
import type { LeakOptions } from "../../support/oracles/no-leak.ts";
import { whileNeighbourAnswers } from "../../support/oracles/host-healthy.ts";
import { runtimeUnderTest } from "../../support/runtime-under-test.ts";
import { SandboxMachine, TEST_LIMITS } from "../../support/sandbox-machine.ts";
import type { TestSandbox } from "../../support/sandbox-machine.ts";
import { arm, buildProbes } from "./build-probes.ts";
import type { Attacker, Probes } from "./build-probes.ts";

export interface Arena {
  readonly attacker: Attacker;
  readonly neighbour: TestSandbox;
  /** Another sandbox with the programs in it. */
  readonly another: (limits?: Partial<SandboxLimits>) => Promise<Attacker>;
  /** Oracle H around a part of the case. */
  readonly healthily: <T>(attack: () => Promise<T>) => Promise<T>;
}

export class ResourceMachine implements AsyncDisposable {
  readonly machine: SandboxMachine;
  readonly #neighbour: TestSandbox;
  readonly #probes: Probes;

  private constructor(machine: SandboxMachine, neighbour: TestSandbox, probes: Probes) {
    this.machine = machine;
    this.#neighbour = neighbour;
    this.#probes = probes;
  }

  static async start(): Promise<ResourceMachine> {
    const probes = await buildProbes();
    const machine = await SandboxMachine.start({ runtime: runtimeUnderTest() });
    await warmUp(machine);
    const neighbour = await machine.sandbox();
    // Connected from now on, so its socket is part of every snapshot.
    await neighbour.channel.ping();
    return new ResourceMachine(machine, neighbour, probes);
  }

  /** One case, with an attacker with these limits and oracles L and S around it. */
  async attacked(
    limits: Partial<SandboxLimits>,
    attack: (arena: Arena) => Promise<void>,
    options: LeakOptions = {},
  ): Promise<void> {
    const spec = (more: Partial<SandboxLimits> = {}): Partial<SandboxSpec> => ({
      limits: { ...TEST_LIMITS, ...more },
    });
    await aroundCase(
      this.machine,
      async ({ sandbox }) =>
        attack({
          attacker: await arm(await sandbox(spec(limits)), this.#probes),
          neighbour: this.#neighbour,
          another: async (more) => arm(await sandbox(spec(more)), this.#probes),
          healthily: async (part) => (await whileNeighbourAnswers(this.#neighbour, part)).result,
        }),
      options,
    );
  }

  /** Skips a test of what the backend does not claim to enforce, according to its isolation report. */
  async skipUnlessEnforced(context: TestContext, name: string): Promise<void> {
    const { facts } = await this.machine.backend.isolation(this.#neighbour.id);
    const fact = facts.find((candidate) => candidate.name === name);
    if (fact === undefined) throw new Error(`the isolation report says nothing about ${name}`);
    if (!fact.enforced) context.skip(`reported as not enforced here: ${fact.measured}`);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.machine[Symbol.asyncDispose]();
  }
}
