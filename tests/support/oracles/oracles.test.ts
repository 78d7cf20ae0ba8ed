/** The oracles themselves: each must detect its kind of damage. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdir, open, rmdir, writeFile, rm } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, expect, test } from "vitest";
import { SandboxMachine } from "../sandbox-machine.ts";
import { aroundCase, warmUp } from "./around-case.ts";
import { whileNeighbourAnswers } from "./host-healthy.ts";
import { cgroupRoots, IDS_DIR, scopeOf } from "./machine-traces.ts";
import { heldBytes, HostSnapshot } from "./no-leak.ts";
import { AcknowledgedLog } from "./nothing-lost.ts";
import { Sentinel } from "./sentinel.ts";

const SOON = { settleMs: 100 };

let machine: SandboxMachine;
beforeAll(async () => {
  machine = await SandboxMachine.start();
  await warmUp(machine);
});
afterAll(async () => {
  await machine[Symbol.asyncDispose]();
});

test("L finds nothing after a sandbox has come and gone", async () => {
  const before = await HostSnapshot.take(machine);
  await warmUp(machine);
  await before.expectUnchanged();
});

test("L sees a living sandbox in every kind of trace", async () => {
  const before = await HostSnapshot.take(machine);
  const { id, channel } = await machine.sandbox();
  await channel.ping();
  const found = await before.expectUnchanged(SOON).then(
    () => "",
    (error: Error) => error.message,
  );
  for (const kind of [
    `cgroups: + `,
    `processes: + pid`,
    `network namespaces: + net:`,
    `loop devices: + /dev/loop`,
    `id slots: + slot`,
    `data directory: + sandboxes/${id}`,
    `sandboxes: + ${id} running`,
    `descriptors of this process: + socket`,
  ])
    expect(found).toContain(kind);
  await machine.destroy(id);
  await before.expectUnchanged();
});

test("L sees memory that is held, and not what is only garbage", async () => {
  const before = await HostSnapshot.take(machine);
  const held = [Buffer.alloc(40 * 2 ** 20, 1)];
  await expect(before.expectUnchanged(SOON)).rejects.toThrow(/memory of this process: \+ \d+ MiB/);
  held.length = 0;
  await before.expectUnchanged();
});

test("L counts no garbage, however much there is and however soon it looks", () => {
  const before = heldBytes();
  for (let round = 0; round < 10; round++) {
    for (let waste = 0; waste < 400; waste++) Buffer.alloc(2 ** 19, 1);
    expect(heldBytes() - before).toBeLessThan(8 * 2 ** 20);
  }
});

test("L sees a cgroup, a file, an id slot, a descriptor and a process that were left", async () => {
  const { dataDir, cgroupParent } = await scopeOf(machine);
  const roots = await cgroupRoots();
  const cgroup = join(roots[0] ?? "", cgroupParent, "sbx_left");
  const slot = join(IDS_DIR, "31999");
  const left: Record<string, () => Promise<() => Promise<unknown>>> = {
    "cgroups: + ": async () => {
      await mkdir(cgroup, { recursive: true });
      return () => rmdir(cgroup);
    },
    "data directory: + left": async () => {
      await writeFile(join(dataDir, "left"), "");
      return () => rm(join(dataDir, "left"));
    },
    "id slots: + slot 31999 of sbx_left": async () => {
      await writeFile(slot, `sbx_left\n${dataDir}/sandboxes/sbx_left\n`);
      return () => rm(slot);
    },
    "descriptors of this process: + ": async () => {
      const handle = await open(join(dataDir, "templates"));
      return () => handle.close();
    },
    "processes: + pid": async () => {
      const child = spawn("sleep", ["60"], { argv0: `${dataDir}/sleep`, stdio: "ignore" });
      await once(child, "spawn");
      return () => {
        child.kill("SIGKILL");
        return once(child, "exit");
      };
    },
  };
  for (const [line, leave] of Object.entries(left)) {
    const before = await HostSnapshot.take(machine);
    const takeBack = await leave();
    try {
      await expect(before.expectUnchanged(SOON)).rejects.toThrow(line);
    } finally {
      await takeBack();
    }
    await before.expectUnchanged();
  }
});

test("L is blind to the sandboxes of another machine", async () => {
  await using other = await SandboxMachine.start();
  await other.sandbox();
  const before = await HostSnapshot.take(machine);
  await other.sandbox().then(({ channel }) => channel.close());
  await before.expectUnchanged(SOON);
});

test("S sees its text in an output, and any change of its file", async () => {
  await using sentinel = await Sentinel.plant();
  const sandbox = sentinel.watchOver(await machine.sandbox());
  await sandbox.sh("echo harmless");
  await expect(sandbox.sh(`echo leaked ${sentinel.secret}`)).rejects.toThrow("sentinel");
  await sentinel.expectUnchanged();
  await writeFile(join(sentinel.directory, "beside"), "");
  await expect(sentinel.expectUnchanged()).rejects.toThrow("has changed");
});

test("N sees a lost file, a changed one, and a command that ran twice", async () => {
  const { channel, sh } = await machine.sandbox();
  const log = new AcknowledgedLog();
  await log.write(channel, "kept", "one");
  await log.write(channel, "kept", "two");
  expect(await log.sh(channel, "exit 3")).toMatchObject({ exitCode: 3 });
  await expect(log.write(channel, "/proc/nowhere", "never")).rejects.toThrow();
  await log.verify(channel);
  expect(log.size).toBe(3);
  await sh("tail -n1 .runs >> .runs");
  await expect(log.verify(channel)).rejects.toThrow(/ran 2 times/u);
  await sh("echo other > kept");
  await expect(log.verify(channel)).rejects.toThrow("kept: holds what nobody wrote");
  await sh("rm kept");
  await expect(log.verify(channel)).rejects.toThrow("kept: lost");
});

test("H sees a neighbour that stops answering", async () => {
  const neighbour = await machine.sandbox();
  const { health } = await whileNeighbourAnswers(neighbour, () => sleep(200));
  expect(health.samples).toBeGreaterThan(1);
  const frozen = whileNeighbourAnswers(neighbour, async () => {
    await machine.backend.pause(neighbour.id);
    await sleep(10 * health.baselineP99Ms + 1_500);
    await machine.backend.resume(neighbour.id);
  });
  await expect(frozen).rejects.toThrow("did not keep answering");
});

test("a case takes back its sandboxes, also when it fails", async () => {
  const before = await machine.backend.list();
  const failing = aroundCase(machine, async ({ sandbox }) => {
    await sandbox();
    throw new Error("the attack went wrong");
  });
  await expect(failing).rejects.toThrow("the attack went wrong");
  expect(await machine.backend.list()).toEqual(before);
});
