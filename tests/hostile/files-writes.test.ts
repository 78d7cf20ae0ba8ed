/** Threats: renames during an upload and interrupted writes. A write happens completely or not at all, whatever happens around it. */
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { Channel } from "@sandkasten/daemon";
import { RunnerChannel } from "../../packages/daemon/src/channel/runner-channel.ts";
import { connectUnixSocket } from "../../packages/daemon/src/channel/unix-socket.ts";
import { aroundCase, warmUp } from "../support/oracles/around-case.ts";
import { runtimeUnderTest } from "../support/runtime-under-test.ts";
import { SandboxMachine } from "../support/sandbox-machine.ts";
import { installAttack } from "../torture/attacks/install-attack.ts";
import { outcomeOf, readAll } from "../torture/attacks/outcome.ts";

const MIB = 1024 * 1024;

let machine: SandboxMachine;
beforeAll(async () => {
  machine = await SandboxMachine.start({ runtime: runtimeUnderTest() });
  await warmUp(machine);
});
afterAll(() => machine[Symbol.asyncDispose]());

const onDocker = runtimeUnderTest() === "docker";

/** Without a runner socket on the host, connections can only be closed. */
const hasSocket = !["docker", "runsc"].includes(runtimeUnderTest());

/** A second channel to the same runner, which can be cut off. */
async function ownChannel(id: string): Promise<{ channel: Channel; cut: () => void }> {
  if (!hasSocket) {
    const opened = await machine.backend.open(id);
    return { channel: opened, cut: () => opened.close() };
  }
  const socket = join(machine.dataDir, "sandboxes", id, "runner.sock");
  let cut: () => void = () => undefined;
  const channel = new RunnerChannel({
    connect: async (signal) => {
      const transport = await connectUnixSocket(socket, signal);
      cut = () => transport.destroy();
      return transport;
    },
  });
  return { channel, cut: () => cut() };
}

/** Half of it, then the interruption, then the rest. */
async function* halfThen(content: Buffer, interruption: () => unknown): AsyncGenerator<Buffer> {
  const half = content.length / 2;
  for (let at = 0; at < content.length; at += 64 * 1024) {
    if (at === half) await interruption();
    yield content.subarray(at, at + 64 * 1024);
  }
}

async function namesIn(channel: Channel, path: string): Promise<string[]> {
  const { entries } = await channel.listDirectory(path, { recursive: true });
  return entries.map((entry) => entry.path);
}

/** The runner notices a lost connection a little later. */
async function eventuallyOnly(channel: Channel, path: string, names: string[]): Promise<void> {
  const deadline = performance.now() + 30_000;
  for (;;) {
    const found = await namesIn(channel, path);
    if (found.length <= names.length || performance.now() > deadline) {
      expect(found).toEqual(names);
      return;
    }
    await sleep(10);
  }
}

test("a write whose channel is closed or disconnected half-way keeps the old content and leaves no other file", async () => {
  await aroundCase(machine, async ({ sandbox }) => {
    const { id, channel } = await sandbox();
    const old = Buffer.alloc(MIB, "old");
    await channel.writeFile("dir/file", old, { mode: 0o640 });
    for (const how of ["close", "cut", "throw"] as const) {
      const own = await ownChannel(id);
      const source = halfThen(Buffer.alloc(4 * MIB, "new"), async () => {
        // This much has certainly arrived.
        expect((await namesIn(channel, "dir")).length).toBe(2);
        if (how === "close") own.channel.close();
        if (how === "cut") own.cut();
        if (how === "throw") throw new Error("the client has gone");
      });
      const writing = own.channel.writeFile("dir/file", source);
      if (how === "throw") await expect(writing).rejects.toThrow("the client has gone");
      else expect(await outcomeOf(writing)).toBe("SANDBOX_UNREACHABLE");
      own.channel.close();
      await eventuallyOnly(channel, "dir", ["/workspace/dir/file"]);
      expect((await readAll(channel, "dir/file")).equals(old)).toBe(true);
      expect(await channel.stat("dir/file")).toMatchObject({ mode: 0o640 });
    }
    const unpacking = await ownChannel(id);
    const archive = halfThen(Buffer.alloc(MIB, 1), () => unpacking.cut());
    expect(await outcomeOf(unpacking.channel.extractTar("dir", archive))).not.toBe("done");
    unpacking.channel.close();
  });
});

// A disk of an engine's container has no limit to reach.
test.skipIf(onDocker)(
  "a write that runs out of disk space keeps the old content and leaves no other file",
  async () => {
    await aroundCase(machine, async ({ sandbox }) => {
      const { channel } = await sandbox();
      await channel.writeFile("dir/file", Buffer.from("old"));
      const endless = (async function* () {
        for (let i = 0; i < 4_000; i++) yield Buffer.alloc(256 * 1024, 1);
      })();
      // Filling the disk takes long on a busy machine, especially on gVisor.
      const filled = outcomeOf(channel.writeFile("dir/file", endless), 90_000);
      expect(await filled).toBe("STORAGE_FULL");
      expect(await namesIn(channel, "dir")).toEqual(["/workspace/dir/file"]);
      expect(String(await readAll(channel, "dir/file"))).toBe("old");
    });
  },
);

test("a parent that is renamed during the write is harmless: old or new, and no other file", async () => {
  await aroundCase(machine, async ({ sandbox }) => {
    const { channel } = await sandbox();
    const old = Buffer.alloc(MIB, "old");
    const fresh = Buffer.alloc(2 * MIB, "new");
    await channel.writeFile("dir/file", old);
    const source = halfThen(fresh, () => channel.move("dir", "elsewhere"));
    const outcome = await outcomeOf(channel.writeFile("dir/file", source));
    const files = (await namesIn(channel, "/workspace")).filter((path) => path.includes("/file"));
    for (const path of files) {
      const content = await readAll(channel, path);
      expect(content.equals(old) || content.equals(fresh), `content of ${path}`).toBe(true);
    }
    expect(files.length, `after a write that was ${outcome}`).toBeGreaterThan(0);
    expect(
      (await namesIn(channel, "/workspace")).filter((path) => path.includes(".sandkasten")),
    ).toEqual([]);
  });
});

test("a parent that is constantly swapped never shows a part of a file", async () => {
  await aroundCase(machine, async ({ sandbox }) => {
    const { channel, run } = await sandbox();
    const exchange = await installAttack(channel, "exchange");
    await channel.makeDirectory("a");
    await channel.makeDirectory("b");
    const swapping = run([exchange, "2", "a", "b"]);
    const contents = ["old", "new"].map((text) => Buffer.alloc(300_000, text));
    let done = 0;
    for (let i = 0; done < 100 && i < 400; i++)
      if ((await outcomeOf(channel.writeFile("a/file", contents[i % 2]!))) === "done") done++;
    expect(done).toBeGreaterThan(0);
    await swapping;
    for (const path of ["a/file", "b/file"]) {
      const found = await readAll(channel, path).catch(() => undefined);
      if (found !== undefined) expect(contents.some((content) => content.equals(found))).toBe(true);
    }
    expect(
      (await namesIn(channel, "/workspace")).filter((path) => path.includes(".sandkasten")),
    ).toEqual([]);
  });
});
