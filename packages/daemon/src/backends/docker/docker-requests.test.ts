/** How often the daemon calls the engine: each exec starts a process on the engine's machine. */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { dockerUnderTest } from "../../../../../tests/support/docker-under-test.ts";
import { EngineProxy } from "../../../../../tests/support/engine-proxy.ts";
import { testSandbox } from "../../../../../tests/support/sandbox-machine.ts";
import { DockerMachine } from "./testing/docker-machine.ts";

let directory: string;
let proxy: EngineProxy;
let machine: DockerMachine;

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), "sandkasten-test-"));
  const engine = dockerUnderTest().replace(/^unix:\/\//u, "");
  proxy = await EngineProxy.start(join(directory, "proxy.sock"), engine);
  machine = await DockerMachine.start({ host: proxy.host });
});
afterAll(async () => {
  await machine[Symbol.asyncDispose]();
  await proxy[Symbol.asyncDispose]();
  await rm(directory, { recursive: true, force: true });
});

const execs = (requests: readonly string[]): readonly string[] =>
  requests.filter((line) => /^POST .*\/containers\/[^/]+\/exec$/u.test(line));

test("create, a first command, stats and isolation share one exec of the engine", async () => {
  const { id } = await machine.create();
  expect(execs(proxy.requests)).toHaveLength(1);
  const asked = proxy.requests.length;
  const { channel, sh } = testSandbox(id, await machine.backend.open(id));
  expect(await sh("echo first")).toMatchObject({ stdout: "first\n" });
  expect(proxy.requests.slice(asked)).toEqual([]);
  await machine.backend.stats(id);
  await machine.backend.isolation(id);
  expect(execs(proxy.requests)).toHaveLength(1);
  // Only the first caller gets it: channels are closed by their owners.
  const second = testSandbox(id, await machine.backend.open(id));
  channel.close();
  expect(await second.sh("echo second")).toMatchObject({ stdout: "second\n" });
  expect(execs(proxy.requests)).toHaveLength(2);
  second.channel.close();
});

test("a sandbox that was destroyed before it was opened cannot be opened", async () => {
  const { id } = await machine.create();
  await machine.backend.destroy(id);
  await expect(machine.backend.open(id)).rejects.toMatchObject({ code: "SANDBOX_NOT_FOUND" });
});
