/** A sandbox of a runtime, whose network leads into a test's world. */
import type { NetworkFixture, TestNetwork } from "@sandkasten/testkit";
import { gatewayInto } from "../../packages/daemon/src/network/testing/gateway-into.ts";
import type { SandboxSpec } from "@sandkasten/daemon";
import type { RuntimeOfRun } from "./runtime-under-test.ts";
import { MIB, SandboxMachine, TEST_LIMITS } from "./sandbox-machine.ts";

/** Package managers need more than most tests do. */
const LIMITS = {
  ...TEST_LIMITS,
  memoryBytes: 512 * MIB,
  cpuMillicores: 2000,
  pids: 512,
  diskBytes: 256 * MIB,
};

export async function networkFixture(
  runtime: RuntimeOfRun,
  network: TestNetwork,
  spec: Partial<SandboxSpec> = {},
): Promise<NetworkFixture> {
  const machine = await SandboxMachine.start({ runtime });
  try {
    const { channel } = await machine.sandbox({
      limits: LIMITS,
      network: "gateway",
      trustedCertificate: network.authority.certificate,
      ...spec,
    });
    const { mode } = await channel.openNetwork(gatewayInto(network));
    return { channel, mode, close: () => machine[Symbol.asyncDispose]() };
  } catch (error) {
    await machine[Symbol.asyncDispose]();
    throw error;
  }
}
