/** Engines that are reached over ssh, and addresses that are refused. */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir, userInfo } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { dockerUnderTest } from "../../../../../tests/support/docker-under-test.ts";
import { testSandbox } from "../../../../../tests/support/sandbox-machine.ts";
import { SshServer } from "../../../../../tests/support/ssh-server.ts";
import { openDockerBackend } from "./docker-backend.ts";
import { Engine } from "./engine.ts";
import { connectEngine } from "./engine-connection.ts";
import { DockerMachine } from "./testing/docker-machine.ts";

async function scratch(): Promise<AsyncDisposable & { readonly path: string }> {
  const path = await mkdtemp(join(tmpdir(), "sandkasten-test-"));
  return { path, [Symbol.asyncDispose]: () => rm(path, { recursive: true, force: true }) };
}

/** A machine with the engine of this run, and an ssh server. */
async function machineBehindSsh(directory: string): Promise<SshServer> {
  return await SshServer.start(join(directory, "ssh"), { DOCKER_HOST: dockerUnderTest() });
}

test("a sandbox on an engine behind ssh works like any other, with volumes", async () => {
  await using directory = await scratch();
  await using server = await machineBehindSsh(directory.path);
  const connection = { host: server.url, sshProgram: await server.client() };
  await using machine = await DockerMachine.start({ connection, workspace: { strategy: "auto" } });
  const { id } = await machine.create();
  const channel = await machine.backend.open(id);
  await channel.writeFile("large", Buffer.alloc(3_000_000, 7));
  expect((await testSandbox(id, channel).sh("wc -c < large; cat large | tail -c 1")).stdout).toBe(
    "3000000\n\u0007",
  );
  expect((await machine.backend.health()).checks).toContainEqual({
    name: "workspace",
    ok: true,
    detail: expect.stringContaining("volume: the engine is accessed over the network"),
  });
  channel.close();
  // SECURITY: ssh never prompts, never accepts an unknown key, and passes nothing as an option.
  expect(new Set(await server.calls())).toEqual(
    new Set([
      "-o BatchMode=yes -o ConnectTimeout=10 -o ServerAliveInterval=15 -o LogLevel=VERBOSE " +
        `-l ${userInfo().username} -p ${server.port} -- 127.0.0.1 docker system dial-stdio`,
    ]),
  );
});

test("a sandbox behind ssh keeps running while the connection is lost, and is found again", async () => {
  await using directory = await scratch();
  await using server = await machineBehindSsh(directory.path);
  const connection = { host: server.url, sshProgram: await server.client() };
  await using machine = await DockerMachine.start({ connection });
  const { id } = await machine.create();
  const channel = await machine.backend.open(id);
  const sandbox = testSandbox(id, channel);
  await sandbox.sh("cd /tmp; state=kept");
  await server.stop();
  expect(await machine.backend.reachable()).toBe(false);
  await expect(machine.backend.list()).rejects.toMatchObject({ code: "ENGINE_UNREACHABLE" });
  await server.startAgain();
  expect(await machine.backend.reachable()).toBe(true);
  expect((await sandbox.sh("echo $PWD $state")).stdout).toBe("/tmp kept\n");
  channel.close();
});

test("a machine behind ssh accepts many requests at once", async () => {
  await using directory = await scratch();
  await using server = await machineBehindSsh(directory.path);
  const engine = new Engine({ host: server.url, sshProgram: await server.client() });
  const facts = await Promise.all(Array.from({ length: 12 }, () => engine.facts()));
  expect(new Set(facts.map(({ operatingSystem }) => operatingSystem))).toEqual(new Set(["linux"]));
});

test("the daemon does not log in to an unknown machine, and doctor says so", async () => {
  await using directory = await scratch();
  await using server = await machineBehindSsh(directory.path);
  await using machine = await DockerMachine.start();
  const connection = { host: server.url, sshProgram: await server.strangersClient() };
  const backend = await openDockerBackend({ ...machine.options, connection });
  const { usable, checks } = await backend.health();
  expect(usable).toBe(false);
  expect(checks).toMatchObject([
    { name: "engine", ok: false, detail: expect.stringContaining("Host key verification failed") },
  ]);
});

test("an engine behind ssh that cannot be reached is unreachable", async () => {
  const engine = new Engine({ host: "ssh://nowhere.example", sshProgram: "/bin/false" });
  expect(await engine.responds()).toBe(false);
  await expect(engine.facts()).rejects.toMatchObject({ code: "ENGINE_UNREACHABLE" });
  const missing = new Engine({ host: "ssh://nowhere.example", sshProgram: "/no/such/ssh" });
  expect(await missing.responds()).toBe(false);
});

test.each(["", "engine", "http://engine", "npipe:////./pipe/docker"])(
  "%j is not an address of an engine",
  async (host) => {
    await expect(connectEngine({ host })).rejects.toMatchObject({ code: "UNSUPPORTED" });
  },
);
