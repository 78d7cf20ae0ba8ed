/** Sandboxes with one of the engine's networks, and sandboxes without one. */
import { execFile } from "node:child_process";
import { once } from "node:events";
import { createServer } from "node:net";
import type { AddressInfo } from "node:net";
import { promisify } from "node:util";
import { afterAll, beforeAll, expect, test } from "vitest";
import { dockerUnderTest } from "../../../../../tests/support/docker-under-test.ts";
import { testSandbox } from "../../../../../tests/support/sandbox-machine.ts";
import type { TestSandbox } from "../../../../../tests/support/sandbox-machine.ts";
import type { SandboxNetwork } from "../../ports/backend.ts";
import { DockerMachine } from "./testing/docker-machine.ts";

const NETWORK = `sandkasten-test-${process.pid}`;
const run = promisify(execFile);
const docker = async (...args: readonly string[]): Promise<unknown> =>
  await run("docker", ["-H", dockerUnderTest(), ...args]);

let machine: DockerMachine;
beforeAll(async () => {
  await docker("network", "create", NETWORK);
  machine = await DockerMachine.start({ network: NETWORK });
});
afterAll(async () => {
  await machine[Symbol.asyncDispose]();
  await docker("network", "rm", NETWORK);
});

async function sandbox(network?: SandboxNetwork): Promise<TestSandbox> {
  const { id } = await machine.create(network === undefined ? {} : { network });
  return testSandbox(id, await machine.backend.open(id));
}

async function devices(of: TestSandbox): Promise<readonly string[]> {
  const { stdout } = await of.sh("cat /proc/net/dev");
  return [...stdout.matchAll(/^\s*(\w+):/gmu)].map(([, name = ""]) => name).toSorted();
}

async function holdsNoNetwork({ id }: TestSandbox): Promise<boolean | undefined> {
  const { facts } = await machine.backend.isolation(id);
  return facts.find(({ name }) => name === "no_network")?.enforced;
}

test("a sandbox that requests a network can reach others there, and its report says so", async () => {
  const [one, other] = [await sandbox("full"), await sandbox("full")];
  expect(await devices(one)).toEqual(["eth0", "lo"]);
  expect(await holdsNoNetwork(one)).toBe(false);
  const address = (await one.sh("hostname -i")).stdout.trim();
  await one.sh("echo hello | nc -l -p 7000 >/dev/null &");
  await expect
    .poll(async () => (await other.sh(`nc ${address} 7000 </dev/null`)).stdout)
    .toBe("hello\n");
  // SECURITY: against reaching a network: the network is separate, so services on the machine's
  // loopback are not reachable.
  await using server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  expect((await one.sh(`nc 127.0.0.1 ${port} </dev/null`)).exitCode).not.toBe(0);
});

test("a sandbox that requests no network has none, even if the engine offers one", async () => {
  for (const each of [await sandbox(), await sandbox("none")]) {
    expect(await devices(each)).toEqual(["lo"]);
    expect(await holdsNoNetwork(each)).toBe(true);
  }
});

test("the request is refused if the administrator names no network, or the engine lacks it", async () => {
  await using without = await DockerMachine.start();
  await expect(without.create({ network: "full" })).rejects.toMatchObject({ code: "UNSUPPORTED" });
  await using lacking = await DockerMachine.start({ network: "no-such-network" });
  await expect(lacking.create({ network: "full" })).rejects.toMatchObject({
    code: "UNSUPPORTED",
    message: expect.stringContaining("no-such-network") as unknown,
  });
  expect(await lacking.backend.list()).toEqual([]);
  const checkOf = async ({ backend }: DockerMachine): Promise<boolean | undefined> =>
    (await backend.health()).checks.find(({ name }) => name === "network")?.ok;
  expect([await checkOf(without), await checkOf(lacking), await checkOf(machine)]).toEqual([
    undefined,
    false,
    true,
  ]);
});
