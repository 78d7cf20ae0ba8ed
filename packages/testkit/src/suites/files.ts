/** What file work has to keep. */
import { randomBytes } from "node:crypto";
import { expect, it } from "vitest";
import type { FixtureOf } from "../channel-fixture.ts";
import type { Channel, FileChange } from "../ports.ts";
import { contentOf, run, withCode } from "./run-command.ts";

export function fileSuite(fixture: FixtureOf): void {
  it.each([
    ["an empty file", Buffer.alloc(0)],
    ["text", Buffer.from("grüße\r\n")],
    ["bytes of every kind", Buffer.from(Array.from({ length: 1024 }, (_, i) => i % 256))],
    ["more than any window", randomBytes(2_000_000)],
  ])("gives back %s as it was written", async (_, bytes) => {
    const { channel } = fixture();
    const written = await channel.writeFile("round-trip", bytes);
    expect(written).toEqual({
      path: expect.stringMatching(/^\/.*\/round-trip$/) as unknown,
      size: bytes.byteLength,
    });
    const file = await channel.readFile("round-trip");
    expect(file.size).toBe(bytes.byteLength);
    expect(Buffer.concat(await Array.fromAsync(file.body)).equals(bytes)).toBe(true);
  });

  it("takes content piece by piece", async () => {
    const { channel } = fixture();
    const pieces = Array.from({ length: 100 }, (_, i) => Buffer.alloc(10_000, i));
    async function* source(): AsyncGenerator<Uint8Array> {
      for (const piece of pieces) yield Promise.resolve(piece);
    }
    expect((await channel.writeFile("pieces", source())).size).toBe(1_000_000);
    expect((await contentOf(channel, "pieces")).equals(Buffer.concat(pieces))).toBe(true);
  });

  it("keeps the old content when the source of the new one fails", async () => {
    const { channel } = fixture();
    await channel.writeFile("atomic", Buffer.from("old"));
    async function* source(): AsyncGenerator<Uint8Array> {
      yield Promise.resolve(Buffer.from("half of the new"));
      throw new Error("the source broke");
    }
    await expect(channel.writeFile("atomic", source())).rejects.toThrow("the source broke");
    expect((await contentOf(channel, "atomic")).toString()).toBe("old");
    const names = (await channel.listDirectory(".")).entries.map((entry) => entry.name);
    expect(names.filter((name) => name.includes("atomic"))).toEqual(["atomic"]);
  });

  it("reads ranges, also beyond the end", async () => {
    const { channel } = fixture();
    await channel.writeFile("ranges", Buffer.from("0123456789"));
    const read = async (range: { offset?: number; length?: number }): Promise<string> => {
      const file = await channel.readFile("ranges", range);
      expect(file.size).toBe(10);
      return Buffer.concat(await Array.fromAsync(file.body)).toString();
    };
    expect(await read({ offset: 3 })).toBe("3456789");
    expect(await read({ offset: 3, length: 4 })).toBe("3456");
    expect(await read({ length: 0 })).toBe("");
    expect(await read({ offset: 8, length: 100 })).toBe("89");
    expect(await read({ offset: 100 })).toBe("");
  });

  it("may stop reading in the middle", async () => {
    const { channel } = fixture();
    await channel.writeFile("stopped", randomBytes(1_000_000));
    const file = await channel.readFile("stopped");
    await file.body.cancel();
    expect((await channel.stat("stopped")).size).toBe(1_000_000);
  });

  it("makes parents and sets the mode unless told otherwise", async () => {
    const { channel } = fixture();
    await channel.writeFile("a/b/c.sh", Buffer.from("x"), { mode: 0o750 });
    expect(await channel.stat("a/b/c.sh")).toMatchObject({
      name: "c.sh",
      type: "file",
      size: 1,
      mode: 0o750,
    });
    const withoutParents = channel.writeFile("no/such/dir", Buffer.from("x"), { parents: false });
    await expect(withoutParents).rejects.toMatchObject(withCode("FILE_NOT_FOUND"));
  });

  it("overwrites only when allowed", async () => {
    const { channel } = fixture();
    await channel.writeFile("once", Buffer.from("first"));
    const second = channel.writeFile("once", Buffer.from("second"), { overwrite: false });
    await expect(second).rejects.toMatchObject(withCode("FILE_EXISTS"));
    expect((await contentOf(channel, "once")).toString()).toBe("first");
    await channel.writeFile("once", Buffer.from("third"));
    expect((await contentOf(channel, "once")).toString()).toBe("third");
  });

  it("says FILE_NOT_FOUND for what is not there", async () => {
    const { channel } = fixture();
    const missing: ((c: Channel) => Promise<unknown>)[] = [
      (c) => c.stat("missing"),
      (c) => c.readFile("missing"),
      (c) => c.listDirectory("missing"),
      (c) => c.remove("missing"),
      (c) => c.move("missing", "elsewhere"),
      (c) => c.createTar("missing"),
      (c) => c.watch("missing"),
    ];
    for (const attempt of missing)
      await expect(attempt(channel)).rejects.toMatchObject(withCode("FILE_NOT_FOUND"));
  });

  it("tells files from directories", async () => {
    const { channel } = fixture();
    await channel.makeDirectory("a-dir");
    await channel.writeFile("a-file", Buffer.from("x"));
    await expect(channel.readFile("a-dir")).rejects.toMatchObject(withCode("NOT_A_FILE"));
    await expect(channel.listDirectory("a-file")).rejects.toMatchObject(
      withCode("NOT_A_DIRECTORY"),
    );
    expect((await channel.stat("a-dir")).type).toBe("dir");
  });

  it("refuses paths that cannot be one", async () => {
    for (const path of ["", "a\0b"]) {
      await expect(fixture().channel.stat(path)).rejects.toMatchObject(withCode("INVALID_REQUEST"));
    }
  });

  it("lists a directory page by page, in order, without loss", async () => {
    const { channel } = fixture();
    await channel.makeDirectory("paged");
    const names = Array.from({ length: 23 }, (_, i) => `f${String(i).padStart(2, "0")}`);
    await Promise.all(names.map((name) => channel.writeFile(`paged/${name}`, Buffer.from(name))));
    const listed: string[] = [];
    let cursor: string | undefined;
    do {
      const page = await channel.listDirectory("paged", {
        limit: 5,
        ...(cursor !== undefined && { cursor }),
      });
      expect(page.entries.length).toBeLessThanOrEqual(5);
      listed.push(...page.entries.map((entry) => entry.name));
      cursor = page.nextCursor;
    } while (cursor !== undefined);
    expect(listed).toEqual(names);
  });

  it("lists a tree with each directory before what is in it", async () => {
    const { channel } = fixture();
    for (const path of ["tree/b/2", "tree/a/1", "tree/c"])
      await channel.writeFile(path, Buffer.from("x"));
    const root = (await channel.stat("tree")).path;
    const { entries } = await channel.listDirectory("tree", { recursive: true });
    expect(entries.map((entry) => entry.path.slice(root.length + 1))).toEqual([
      "a",
      "a/1",
      "b",
      "b/2",
      "c",
    ]);
    expect((await channel.listDirectory("tree")).entries.map((entry) => entry.name)).toEqual([
      "a",
      "b",
      "c",
    ]);
  });

  it("makes directories, with parents only when asked", async () => {
    const { channel } = fixture();
    await expect(channel.makeDirectory("deep/er/dir")).rejects.toMatchObject(
      withCode("FILE_NOT_FOUND"),
    );
    const path = await channel.makeDirectory("deep/er/dir", { parents: true });
    expect((await channel.stat(path)).type).toBe("dir");
    await expect(channel.makeDirectory("deep")).rejects.toMatchObject(withCode("FILE_EXISTS"));
    await channel.makeDirectory("deep", { parents: true });
  });

  it("moves files and trees, over others only when asked", async () => {
    const { channel } = fixture();
    await channel.writeFile("from/x", Buffer.from("moved"));
    await channel.move("from", "to");
    expect((await contentOf(channel, "to/x")).toString()).toBe("moved");
    await channel.writeFile("taken", Buffer.from("taken"));
    await expect(channel.move("to/x", "taken")).rejects.toMatchObject(withCode("FILE_EXISTS"));
    await channel.move("to/x", "taken", { overwrite: true });
    expect((await contentOf(channel, "taken")).toString()).toBe("moved");
    await expect(channel.stat("to/x")).rejects.toMatchObject(withCode("FILE_NOT_FOUND"));
  });

  it("removes files, and directories only when asked to", async () => {
    const { channel } = fixture();
    await channel.writeFile("doomed/x", Buffer.from("x"));
    await channel.writeFile("doomed/y", Buffer.from("y"));
    await channel.remove("doomed/y");
    await expect(channel.stat("doomed/y")).rejects.toMatchObject(withCode("FILE_NOT_FOUND"));
    await expect(channel.remove("doomed")).rejects.toMatchObject(withCode("NOT_A_FILE"));
    await channel.remove("doomed", { recursive: true });
    await expect(channel.stat("doomed")).rejects.toMatchObject(withCode("FILE_NOT_FOUND"));
  });

  it("shares its files with commands", async () => {
    const { channel } = fixture();
    const { path } = await channel.writeFile("shared", Buffer.from("from outside\n"));
    expect((await run(channel, ["cat", path])).stdout).toBe("from outside\n");
    await run(channel, `echo from inside > ${path}`);
    expect((await contentOf(channel, path)).toString()).toBe("from inside\n");
  });

  it("tells of changes from the moment a watch is there until it is left", async () => {
    const { channel } = fixture();
    await channel.makeDirectory("watched/below", { parents: true });
    const stop = new AbortController();
    const changes = await channel.watch("watched", { recursive: true }, stop.signal);
    const { path } = await channel.writeFile("watched/below/new", Buffer.from("x"));
    const seen: FileChange[] = [];
    for await (const change of changes) {
      seen.push(change);
      if (change.path === path) stop.abort();
    }
    expect(seen.at(-1)?.path).toBe(path);
  });
}
