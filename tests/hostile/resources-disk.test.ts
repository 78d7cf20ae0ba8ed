/** Threats: filling a disk, using up inodes, deep directory trees, sparse files and huge directories. Full disks, and absurd trees and files. */
import { statfs } from "node:fs/promises";
import type { Channel } from "@sandkasten/daemon";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { AcknowledgedLog } from "../support/oracles/nothing-lost.ts";
import { MIB } from "../support/sandbox-machine.ts";
import { ResourceMachine } from "./probe/resource-machine.ts";
import { skipUnlessUsable } from "./probe/usable-runtime.ts";

const ENOSPC = 28;
const TIB = 1024 ** 4;

describe("a sandbox that abuses its disk", () => {
  const reason = skipUnlessUsable();
  let arena: ResourceMachine;
  beforeAll(async () => {
    if (reason === undefined) arena = await ResourceMachine.start();
  });
  afterAll(async () => {
    await arena?.[Symbol.asyncDispose]();
  });

  test("fills only its own disk, and gets the space back after removing", async (context) => {
    await arena.skipUnlessEnforced(context, "disk_quota");
    await arena.attacked({ diskBytes: 64 * MIB }, async ({ attacker, neighbour, healthily }) => {
      const { attack, sh, channel } = attacker;
      const log = new AcknowledgedLog();
      await log.write(channel, "/workspace/precious", "acknowledged before the disk was full");
      const freeBefore = await freeBytes(arena.machine.dataDir);
      await healthily(async () => {
        const [, bytes, errno] = numbers((await attack("fill", "/workspace")).stdout);
        expect(errno).toBe(ENOSPC);
        expect(bytes).toBeLessThan(64 * MIB);
      });
      // Less by at most the sandbox's disk; other work on the machine also has some room.
      expect(freeBefore - (await freeBytes(arena.machine.dataDir))).toBeLessThan(256 * MIB);
      const { diskBytes } = await arena.machine.backend.stats(attacker.id);
      expect(diskBytes).toBeLessThanOrEqual(64 * MIB);

      // When full: commands run, writes are refused with the right error, and existing files are
      // intact.
      await expect(channel.writeFile("/workspace/more", Buffer.alloc(MIB))).rejects.toMatchObject({
        code: "STORAGE_FULL",
      });
      await expect(
        channel.writeFile("/workspace/precious", Buffer.alloc(MIB)),
      ).rejects.toMatchObject({ code: "STORAGE_FULL" });
      expect(await sh("echo running")).toMatchObject({ stdout: "running\n", exitCode: 0 });
      await log.verify(channel);
      expect(
        (await channel.listDirectory("/workspace")).entries.map(({ name }) => name),
      ).not.toContain("more");
      expect(
        await neighbour.sh("head -c 8M /dev/zero > mine && wc -c < mine && rm mine"),
      ).toMatchObject({ stdout: `${8 * MIB}\n` });

      await sh("rm /workspace/fill-*");
      await log.write(channel, "/workspace/more", Buffer.alloc(MIB));
      await log.verify(channel);
    });
  });

  test("uses up only its own inodes, and gets them back after removing", async (context) => {
    await arena.skipUnlessEnforced(context, "disk_quota");
    await arena.attacked({ diskInodes: 2_048 }, async ({ attacker, neighbour, healthily }) => {
      const { attack, sh, channel } = attacker;
      await healthily(async () => {
        const [, count, errno] = numbers(
          (await attack("files", "100000", "/workspace/many")).stdout,
        );
        expect(errno).toBe(ENOSPC);
        expect(count).toBeLessThanOrEqual(2_048);
      });
      await expect(channel.writeFile("/workspace/more", Buffer.from("x"))).rejects.toMatchObject({
        code: "STORAGE_FULL",
      });
      expect(await sh("echo running")).toMatchObject({ stdout: "running\n", exitCode: 0 });
      expect(await neighbour.sh("touch mine && rm mine")).toMatchObject({ exitCode: 0 });
      await channel.remove("/workspace/many", { recursive: true });
      await channel.writeFile("/workspace/more", Buffer.from("x"));
    });
  });

  test("creates 5,000 nested directories, which can be listed, packed and removed", () =>
    arena.attacked({ diskBytes: 128 * MIB }, async ({ attacker }) => {
      const { attack, channel } = attacker;
      expect((await attack("deep", "5000", "/workspace/deep")).stdout).toBe("deep 5000 0\n");
      expect((await channel.listDirectory("/workspace/deep")).entries).toHaveLength(1);
      // Deeper than any path can be opened by name; every page costs more than the last.
      expect(await countEntries(channel, "/workspace/deep", 2_500)).toBeGreaterThanOrEqual(2_500);
      const tar = (await channel.createTar("/workspace/deep")).body;
      let tarBytes = 0;
      for await (const bytes of tar) tarBytes += bytes.byteLength;
      expect(tarBytes).toBeGreaterThan(5_000 * 512);
      await channel.remove("/workspace/deep", { recursive: true });
      await expect(channel.stat("/workspace/deep")).rejects.toMatchObject({
        code: "FILE_NOT_FOUND",
      });
      // Once more, for the sandbox's destruction to handle.
      expect((await attack("deep", "5000", "/workspace/deep")).stdout).toBe("deep 5000 0\n");
    }));

  test("has a file of 10 TB, of which a reader gets the requested part and no archive is created", () =>
    arena.attacked({}, async ({ attacker: { sh, channel } }) => {
      await sh("mkdir big && truncate -s 10T big/sparse");
      const { size, body } = await channel.readFile("/workspace/big/sparse", {
        offset: 5 * TIB,
        length: MIB,
      });
      expect(size).toBe(10 * TIB);
      expect(await countBytes(body)).toBe(MIB);
      // Without a range it does not end; a reader can stop at any time.
      const whole = (await channel.readFile("/workspace/big/sparse")).body.getReader();
      for (let i = 0; i < 16; i++)
        expect((await whole.read()).value?.byteLength).toBeGreaterThan(0);
      await whole.cancel();
      for (const path of ["/workspace/big/sparse", "/workspace/big"])
        await expect(
          channel.createTar(path).then(({ body: tar }) => countBytes(tar)),
        ).rejects.toMatchObject({
          code: "PAYLOAD_TOO_LARGE",
        });
      expect(await sh("echo running")).toMatchObject({ stdout: "running\n" });
    }));

  test("has a directory with very many entries, which is listed in pages with little memory", () =>
    arena.attacked(
      { diskBytes: 256 * MIB, diskInodes: 40_000 },
      async ({ attacker, healthily }) => {
        const { attack, channel } = attacker;
        const entries = 30_000;
        expect((await attack("files", String(entries), "/workspace/many")).stdout).toBe(
          `files ${entries} 0\n`,
        );
        const before = await channel.ping();
        await healthily(async () => {
          expect(await countEntries(channel, "/workspace/many")).toBe(entries);
        });
        const after = await channel.ping();
        expect(after.rssBytes - before.rssBytes).toBeLessThan(8 * MIB);
        await channel.remove("/workspace/many", { recursive: true });
      },
    ));
});

function numbers(text: string): number[] {
  return text.trim().split(" ").map(Number);
}

async function freeBytes(path: string): Promise<number> {
  const { bavail, bsize } = await statfs(path);
  return bavail * bsize;
}

async function countBytes(body: ReadableStream<Uint8Array>): Promise<number> {
  let count = 0;
  for await (const bytes of body) count += bytes.byteLength;
  return count;
}

/**
 * Page by page, in a whole tree up to a number of entries. Each page is bounded, and no entry
 * appears twice.
 */
async function countEntries(channel: Channel, path: string, treeEntries?: number): Promise<number> {
  const recursive = treeEntries !== undefined;
  let count = 0;
  let disorder = 0;
  let last = "";
  let cursor: string | undefined;
  do {
    const page = await channel.listDirectory(path, {
      recursive,
      ...(cursor !== undefined && { cursor }),
    });
    expect(page.entries.length).toBeLessThanOrEqual(1_000);
    for (const entry of page.entries) {
      if (entry.path <= last) disorder += 1;
      last = entry.path;
    }
    count += page.entries.length;
    cursor = page.nextCursor;
  } while (cursor !== undefined && count < (treeEntries ?? Number.POSITIVE_INFINITY));
  expect(disorder).toBe(0);
  return count;
}
