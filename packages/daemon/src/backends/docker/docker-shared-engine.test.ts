/** Several daemons that share an engine create sandboxes without affecting each other. */
import { randomBytes } from "node:crypto";
import { expect, test } from "vitest";
import { openDockerBackend } from "./docker-backend.ts";
import { Engine } from "./engine.ts";
import { DockerMachine } from "./testing/docker-machine.ts";

const newId = (): string => randomBytes(6).toString("hex");

test("daemons can create their first and destroy their last sandbox at the same time", async () => {
  await using machine = await DockerMachine.start({ daemon: newId() });
  const daemons = [
    machine.backend,
    await openDockerBackend({ ...machine.options, daemon: newId() }),
  ];
  for (let round = 0; round < 2; round++) {
    const made = await Promise.all(daemons.map((backend) => backend.create(machine.spec())));
    const listed = (await machine.backend.list()).map(({ id }) => id);
    expect(listed.toSorted()).toEqual(made.map(({ id }) => id).toSorted());
    // One continues while the others find that they have none left.
    await Promise.all([
      ...daemons.map((backend, at) => backend.destroy(made[at]?.id ?? "")),
      ...daemons.map(async (backend) => {
        const { id } = await backend.create(machine.spec());
        await backend.destroy(id);
      }),
    ]);
  }
  for (const backend of daemons) await backend.tidy();
});

test("a sandbox that was taken over is no longer paused or resumed by an earlier daemon", async () => {
  await using machine = await DockerMachine.start({ daemon: newId() });
  const { backend: first } = machine;
  const second = await openDockerBackend({ ...machine.options, daemon: newId() });
  const { id } = await first.create(machine.spec());
  const moved = { code: "SANDBOX_UNREACHABLE", details: { reason: "moved" } };
  await first.pause(id, 5);
  expect(await second.takeOver(id, 9)).toMatchObject({ id, state: "paused" });
  await expect(first.resume(id, 5)).rejects.toMatchObject(moved);
  // The request as it was sent before the other daemon took over the sandbox.
  expect(await new Engine(machine.options.connection).resumeContainer(id)).toBe("absent");
  expect(await second.list()).toContainEqual({ id, state: "paused" });
  await expect(first.takeOver(id, 7)).rejects.toMatchObject(moved);
  await second.resume(id, 9);
  await expect(first.pause(id, 5)).rejects.toMatchObject(moved);
  const third = await openDockerBackend({ ...machine.options, daemon: newId() });
  expect(await third.adopt(id)).toMatchObject({ id, state: "running" });
  const channel = await third.open(id, 12);
  await channel.ping();
  channel.close();
  expect(await third.stats(id)).toMatchObject({
    memoryLimitBytes: machine.spec().limits.memoryBytes,
  });
  await third.isolation(id);
  await third.pause(id, 12);
  await third.destroy(id);
  expect(await machine.backend.list()).toEqual([]);
  for (const backend of [first, second, third]) await backend.tidy();
});

test("a workspace in use names the sandbox by its id, even after a take-over", async () => {
  await using machine = await DockerMachine.start({ daemon: newId() });
  const { backend } = machine;
  const { diskBytes, diskInodes } = machine.spec().limits;
  const workspace = { id: `wsp_${newId()}`, diskBytes, diskInodes };
  const { id } = await backend.create(machine.spec({ workspace }));
  await backend.takeOver(id, 9);
  await expect(backend.destroyWorkspace(workspace.id)).rejects.toMatchObject({
    code: "CONFLICT",
    details: { sandboxes: [id] },
  });
});
