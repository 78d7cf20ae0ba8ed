/** What happens to sandboxes when containers or the engine are ended from outside. */
import { mkdtemp, readdir, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { DockerEngine } from "../../../../../tests/support/docker-engine.ts";
import { EngineProxy } from "../../../../../tests/support/engine-proxy.ts";
import { testSandbox } from "../../../../../tests/support/sandbox-machine.ts";
import type { TestSandbox } from "../../../../../tests/support/sandbox-machine.ts";
import { openDockerBackend } from "./docker-backend.ts";
import { LABEL } from "./sandbox-labels.ts";
import { DockerMachine } from "./testing/docker-machine.ts";

const IMAGE = "test-busybox:latest";
const unreachable = { code: "ENGINE_UNREACHABLE" };

let parent: string;
let engine: DockerEngine;
let machine: DockerMachine;

beforeAll(async () => {
  parent = await mkdtemp(join(tmpdir(), "sandkasten-test-"));
  engine = await DockerEngine.start(join(parent, "e"));
  await engine.importSmallImage(IMAGE, "busybox");
  machine = await DockerMachine.start({ host: engine.host });
});
afterAll(async () => {
  await machine[Symbol.asyncDispose]();
  await engine.assertNothingLeft();
  await engine[Symbol.asyncDispose]();
  await rm(parent, { recursive: true, force: true });
});

afterEach(async () => {
  for (const { id } of await machine.backend.list()) await machine.backend.destroy(id);
});

async function sandbox(): Promise<TestSandbox> {
  const { id } = await machine.create();
  return testSandbox(id, await machine.backend.open(id));
}

async function expectDead(id: string): Promise<void> {
  expect(await machine.backend.list()).toContainEqual({ id, state: "dead" });
  for (const method of ["open", "adopt", "stats", "pause", "isolation"] as const)
    await expect(machine.backend[method](id)).rejects.toMatchObject({
      code: "SANDBOX_UNREACHABLE",
    });
  await expect(machine.backend.create(machine.spec({ id }))).rejects.toMatchObject({
    code: "CONFLICT",
  });
  await machine.backend.destroy(id);
  expect(await machine.backend.list()).toEqual([]);
  await expect(machine.backend.open(id)).rejects.toMatchObject({ code: "SANDBOX_NOT_FOUND" });
  await engine.assertNothingLeft();
}

/** The states of the threads of a process. */
async function threadStates(pid: number): Promise<string[]> {
  const states = new Set<string>();
  for (const thread of await readdir(`/proc/${pid}/task`)) {
    const status = await readFile(`/proc/${pid}/task/${thread}/status`, "utf8");
    states.add(/^State:\s+(\S)/mu.exec(status)?.[1] ?? "");
  }
  return [...states];
}

describe("a container", () => {
  test("that was killed by hand is a dead sandbox, and is removed completely", async () => {
    const { id, channel } = await sandbox();
    await channel.ping();
    await engine.docker("kill", id);
    await expect(channel.ping()).rejects.toMatchObject({ code: "SANDBOX_UNREACHABLE" });
    await expectDead(id);
  });

  test("that was removed by hand leaves volumes, which are listed and swept", async () => {
    const { id, channel } = await sandbox();
    await engine.docker("rm", "-f", id);
    expect((await engine.leftovers()).length).toBeGreaterThan(0);
    await expect(channel.ping()).rejects.toMatchObject({ code: "SANDBOX_UNREACHABLE" });
    await expectDead(id);
  });

  test("of another daemon is never touched, whatever its name and labels", async () => {
    const id = machine.spec().id;
    await engine.docker(
      "create",
      `--name=${id}`,
      `--label=${LABEL.sessionId}=${id}`,
      IMAGE,
      "true",
    );
    await machine.backend.destroy(id);
    expect(await machine.backend.list()).toEqual([]);
    await expect(machine.backend.create(machine.spec({ id }))).rejects.toMatchObject({
      code: "CONFLICT",
    });
    expect(await engine.leftovers()).toEqual([`container ${id} Created`]);
    await engine.docker("rm", id);
  });
});

test("the unfinished work of a killed daemon is listed as dead, and swept", async () => {
  const { instance } = machine.options;
  const [volumeOnly, neverStarted] = [machine.spec().id, machine.spec().id];
  const labels = (id: string): string[] => [
    `--label=${LABEL.instance}=${instance}`,
    `--label=${LABEL.sessionId}=${id}`,
  ];
  await engine.docker("volume", "create", ...labels(volumeOnly), `station-sandbox-${volumeOnly}`);
  await engine.docker("create", `--name=${neverStarted}`, ...labels(neverStarted), IMAGE, "true");
  // The steps before it: the runner's volume, and the container that fills it.
  const role = (name: string): string[] => [
    `--label=${LABEL.instance}=${instance}`,
    `--label=${LABEL.role}=${name}`,
  ];
  await engine.docker("volume", "create", ...role("runner"), `sandkasten-runner-${instance}-old`);
  await engine.docker("create", ...role("idle"), IMAGE, "true");
  expect((await machine.backend.list()).toSorted((a, b) => a.id.localeCompare(b.id))).toEqual(
    [volumeOnly, neverStarted].toSorted().map((id) => ({ id, state: "dead" })),
  );
  for (const id of [volumeOnly, neverStarted]) await machine.backend.destroy(id);
  await engine.assertNothingLeft();
});

describe("an engine", () => {
  test("that is unreachable makes its sandboxes unreachable, destroys nothing, and can return", async () => {
    const { id, channel, sh } = await sandbox();
    await sh("cd /tmp; kept=before");
    await channel.writeFile("kept", Buffer.from("kept"));
    await engine.stop("SIGKILL");

    const { backend, options } = machine;
    expect(await backend.reachable()).toBe(false);
    const outcomes = await Promise.allSettled([
      backend.list(),
      backend.listWorkspaces(),
      backend.create(machine.spec()),
      backend.destroy(id),
      backend.destroyWorkspace("wsp_ab"),
      backend.open(id),
      backend.adopt(id),
      backend.pause(id),
      backend.resume(id),
      backend.stats(id),
      backend.isolation(id),
      options.images.inspect(IMAGE),
    ]);
    for (const outcome of outcomes) expect(outcome).toMatchObject({ reason: unreachable });
    await expect(channel.stat("kept")).rejects.toMatchObject(unreachable);
    expect(await backend.health()).toMatchObject({
      usable: false,
      checks: [{ name: "engine", ok: false, remedy: expect.stringContaining("docker.host") }],
    });

    await engine.startAgain({ liveRestore: true });
    expect(await backend.reachable()).toBe(true);
    expect(await backend.list()).toEqual([{ id, state: "running" }]);
    // The same shell, reached by a new relay through the existing channel.
    expect(await sh("echo $kept; pwd; cat /workspace/kept")).toMatchObject({
      stdout: "before\n/tmp\nkept",
      shellRestarted: false,
    });
    channel.close();
    await backend.destroy(id);
    await engine.assertNothingLeft();
  });

  test("that ends its containers leaves dead sandboxes", async () => {
    const { id } = await sandbox();
    await engine.stop();
    await engine.startAgain();
    await expectDead(id);
  });

  test("that does not respond at all is detected in time", async () => {
    process.kill(engine.pid, "SIGSTOP");
    try {
      // A signal takes a moment to arrive, and stops one thread after the other.
      await expect.poll(() => threadStates(engine.pid)).toEqual(["T"]);
      expect(await machine.backend.reachable()).toBe(false);
    } finally {
      process.kill(engine.pid, "SIGCONT");
    }
    expect(await machine.backend.reachable()).toBe(true);
  });

  test.each([
    ["before", "makes a volume", /^POST .*\/volumes\/create\?Name=station-sandbox-/u, 0],
    ["after", "makes a volume", /^POST .*\/volumes\/create\?Name=station-sandbox-/u, 1],
    ["before", "makes a container", /^POST .*\/containers\/create\?name=sbx_/u, 1],
    ["after", "makes a container", /^POST .*\/containers\/create\?name=sbx_/u, 1],
    ["before", "starts a container", /^POST .*\/containers\/sbx_\w+\/start/u, 1],
    ["after", "starts a container", /^POST .*\/containers\/sbx_\w+\/start/u, 1],
  ] as const)(
    "that is killed %s it %s leaves what can be swept",
    async (moment, _, request, left) => {
      const socket = join(parent, "proxy.sock");
      await using proxy = await EngineProxy.start(socket, join(engine.directory, "docker.sock"));
      const backend = await openDockerBackend({
        ...machine.options,
        connection: { host: proxy.host },
      });
      proxy.setTrap(request, moment, () => engine.stop("SIGKILL"));
      const spec = machine.spec();
      await expect(backend.create(spec)).rejects.toMatchObject(unreachable);
      expect(proxy.struck).toHaveLength(1);
      await engine.startAgain();
      expect(await machine.backend.list()).toEqual(
        left === 0 ? [] : [{ id: spec.id, state: "dead" }],
      );
      await machine.backend.destroy(spec.id);
      expect(await machine.backend.list()).toEqual([]);
      await engine.assertNothingLeft();
    },
  );
});
