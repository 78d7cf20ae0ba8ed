/** Several daemons that share the sandboxes on one engine: each makes them, and none is in another's way. */
import { randomBytes } from "node:crypto";
import { expect, test } from "vitest";
import { openDockerBackend } from "./docker-backend.ts";
import { DockerMachine } from "./testing/docker-machine.ts";

const newId = (): string => randomBytes(6).toString("hex");

test("daemons make their first and destroy their last sandbox at the same time", async () => {
  await using machine = await DockerMachine.start({ daemon: newId() });
  const daemons = [
    machine.backend,
    await openDockerBackend({ ...machine.options, daemon: newId() }),
  ];
  for (let round = 0; round < 2; round++) {
    const made = await Promise.all(daemons.map((backend) => backend.create(machine.spec())));
    const listed = (await machine.backend.list()).map(({ id }) => id);
    expect(listed.toSorted()).toEqual(made.map(({ id }) => id).toSorted());
    // One goes on while the others find that they have none left.
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
