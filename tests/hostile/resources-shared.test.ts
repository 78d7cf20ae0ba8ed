/**
 * Resources that the kernel counts for a user of the machine, not for a sandbox. Every user
 * namespace is also charged to its creator, so what one sandbox uses up may be missing in all
 * others.
 */
import { watch } from "node:fs";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { ResourceMachine } from "./probe/resource-machine.ts";
import { skipUnlessUsable } from "./probe/usable-runtime.ts";

describe("a sandbox that uses up everything it can", () => {
  const reason = skipUnlessUsable();
  let arena: ResourceMachine;
  beforeAll(async () => {
    if (reason !== undefined) return;
    arena = await ResourceMachine.start();
    // The first watch of a process creates a descriptor that Node keeps; it is not a leak of ours.
    watch(arena.machine.dataDir, () => undefined).close();
  });
  afterAll(async () => {
    await arena?.[Symbol.asyncDispose]();
  });

  test("leaves inotify instances to its neighbours and to the machine", () =>
    arena.attacked({}, async ({ attacker, neighbour }) => {
      const [word, count] = (await attacker.attackAndHold("inotify", "1000")).split(" ");
      expect([word, Number(count) > 0]).toEqual(["taken", true]);
      const stop = new AbortController();
      await neighbour.channel.watch("/workspace", {}, stop.signal);
      stop.abort();
      watch(arena.machine.dataDir, () => undefined).close();
    }));

  test("leaves POSIX message queues to its neighbours", async (context) => {
    await arena.skipUnlessEnforced(context, "own_kernel_counts");
    await arena.attacked({}, async ({ attacker, another }) => {
      const free = await another();
      const before = await free.attackAndHold("queues");
      await arena.machine.destroy(free.id);
      expect(await attacker.attackAndHold("queues")).toBe(before);
      expect(await (await another()).attackAndHold("queues")).toBe(before);
    });
  });
});
