/** Guarantees of file operations. */
import { randomBytes } from "node:crypto";
import { expect, it } from "vitest";
import type { FixtureOf } from "../channel-fixture.ts";
import type { Channel, FileChange } from "../ports.ts";
import { readTar, writeTar } from "../tar-archive.ts";
import { contentOf, run, withCode } from "./run-command.ts";

export function fileSuite(fixture: FixtureOf): void {
  it.each([
    ["an empty file", Buffer.alloc(0)],
    ["text", Buffer.from("grüße\r\n")],
    ["bytes of every kind", Buffer.from(Array.from({ length: 1024 }, (_, i) => i % 256))],
    ["more than any window", randomBytes(2_000_000)],
  ])("returns %s unchanged", async (_, bytes) => {
    const { channel } = fixture();
    const written = await channel.writeFile("round-trip", bytes);
    expect(written).toEqual({
      path: expect.stringMatching(/^\/.*\/round-trip$/) as unknown,
      size: bytes.byteLength,
      version: expect.any(String) as unknown,
    });
    const file = await channel.readFile("round-trip");
    expect(file.version).toBe(written.version);
    expect(file.size).toBe(bytes.byteLength);
    expect(Buffer.concat(await Array.fromAsync(file.body)).equals(bytes)).toBe(true);
  });

  it("accepts content piece by piece", async () => {
    const { channel } = fixture();
    const pieces = Array.from({ length: 100 }, (_, i) => Buffer.alloc(10_000, i));
    async function* source(): AsyncGenerator<Uint8Array> {
      for (const piece of pieces) yield Promise.resolve(piece);
    }
    expect((await channel.writeFile("pieces", source())).size).toBe(1_000_000);
    expect((await contentOf(channel, "pieces")).equals(Buffer.concat(pieces))).toBe(true);
  });

  it("keeps the old content if the source of the new one fails", async () => {
    const { channel } = fixture();
    await channel.writeFile("atomic/file", Buffer.from("old"));
    async function* source(): AsyncGenerator<Uint8Array> {
      yield Promise.resolve(Buffer.from("half of the new"));
      throw new Error("the source broke");
    }
    await expect(channel.writeFile("atomic/file", source())).rejects.toThrow("the source broke");
    expect((await contentOf(channel, "atomic/file")).toString()).toBe("old");
    const names = (await channel.listDirectory("atomic")).entries.map((entry) => entry.name);
    expect(names).toEqual(["file"]);
  });

  it("reads ranges, including ones beyond the end", async () => {
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

  it("can stop reading in the middle", async () => {
    const { channel } = fixture();
    await channel.writeFile("stopped", randomBytes(1_000_000));
    const file = await channel.readFile("stopped");
    await file.body.cancel();
    expect((await channel.stat("stopped")).size).toBe(1_000_000);
  });

  it("creates parents and sets the mode by default", async () => {
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

  it("overwrites only if allowed", async () => {
    const { channel } = fixture();
    await channel.writeFile("once", Buffer.from("first"));
    const second = channel.writeFile("once", Buffer.from("second"), { overwrite: false });
    await expect(second).rejects.toMatchObject(withCode("FILE_EXISTS"));
    expect((await contentOf(channel, "once")).toString()).toBe("first");
    await channel.writeFile("once", Buffer.from("third"));
    expect((await contentOf(channel, "once")).toString()).toBe("third");
  });

  it("returns FILE_NOT_FOUND for missing paths", async () => {
    const { channel } = fixture();
    const missing: ((c: Channel) => Promise<unknown>)[] = [
      (c) => c.stat("missing"),
      (c) => c.stat("missing", { follow: true }),
      (c) => c.realpath("missing"),
      (c) => c.copy("missing", "elsewhere"),
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

  it("distinguishes files and directories", async () => {
    const { channel } = fixture();
    await channel.makeDirectory("a-dir");
    await channel.writeFile("a-file", Buffer.from("x"));
    await expect(channel.readFile("a-dir")).rejects.toMatchObject(withCode("NOT_A_FILE"));
    await expect(channel.listDirectory("a-file")).rejects.toMatchObject(
      withCode("NOT_A_DIRECTORY"),
    );
    expect((await channel.stat("a-dir")).type).toBe("dir");
  });

  it("refuses invalid paths", async () => {
    for (const path of ["", "a\0b"]) {
      await expect(fixture().channel.stat(path)).rejects.toMatchObject(withCode("INVALID_REQUEST"));
    }
  });

  it("lists a directory in pages, in order, without loss", async () => {
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

  it("lists a tree with each directory before its contents", async () => {
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

  it("creates directories, with parents only on request", async () => {
    const { channel } = fixture();
    await expect(channel.makeDirectory("deep/er/dir")).rejects.toMatchObject(
      withCode("FILE_NOT_FOUND"),
    );
    const { path } = await channel.makeDirectory("deep/er/dir", { parents: true });
    expect((await channel.stat(path)).type).toBe("dir");
    await expect(channel.makeDirectory("deep")).rejects.toMatchObject(withCode("FILE_EXISTS"));
    await channel.makeDirectory("deep", { parents: true });
  });

  it("moves files and trees, and overwrites only on request", async () => {
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

  it("removes files and empty directories, and others only on request", async () => {
    const { channel } = fixture();
    await channel.writeFile("doomed/x", Buffer.from("x"));
    await channel.writeFile("doomed/y", Buffer.from("y"));
    await channel.remove("doomed/y");
    await expect(channel.stat("doomed/y")).rejects.toMatchObject(withCode("FILE_NOT_FOUND"));
    await expect(channel.remove("doomed")).rejects.toMatchObject(withCode("FILE_EXISTS"));
    expect((await contentOf(channel, "doomed/x")).toString()).toBe("x");
    await channel.remove("doomed", { recursive: true });
    await expect(channel.stat("doomed")).rejects.toMatchObject(withCode("FILE_NOT_FOUND"));
    await channel.makeDirectory("empty");
    await channel.remove("empty");
    await expect(channel.stat("empty")).rejects.toMatchObject(withCode("FILE_NOT_FOUND"));
  });

  it("follows a link only on request, and resolves it", async () => {
    const { channel } = fixture();
    const { path } = await channel.writeFile("linked/target", Buffer.from("12345"));
    const link = writeTar([{ path: "link", type: "symlink", target: "linked/target" }]);
    await channel.extractTar(".", link);
    expect(await channel.stat("link")).toMatchObject({ type: "symlink", target: "linked/target" });
    expect(await channel.stat("link", { follow: true })).toMatchObject({
      name: "link",
      type: "file",
      size: 5,
      version: (await channel.stat("linked/target")).version,
    });
    expect(await channel.realpath("link")).toEqual({ path });
    expect(await channel.realpath("linked/../linked/./target")).toEqual({ path });
  });

  it("reads a file with its real path, even if its name says that it was removed", async () => {
    const { channel } = fixture();
    const name = "real/the file (deleted)";
    const { path } = await channel.writeFile(name, Buffer.from("x"));
    const link = writeTar([{ path: "link-to-real", type: "symlink", target: name }]);
    await channel.extractTar(".", link);
    for (const asked of [name, "link-to-real", "real/../real/./the file (deleted)"]) {
      const { realPath, body } = await channel.readFile(asked, { realPath: true, length: 1 });
      await body.cancel();
      expect(realPath).toEqual({ path });
    }
    const { body, ...rest } = await channel.readFile(name);
    await body.cancel();
    expect(rest).not.toHaveProperty("realPath");
  });

  it("appends to a file, which is created if needed, completely or not at all", async () => {
    const { channel } = fixture();
    const first = await channel.appendFile("logs/log", Buffer.from("one\n"), { mode: 0o640 });
    expect(first).toMatchObject({ size: 4 });
    expect((await channel.stat("logs/log")).mode).toBe(0o640);
    const large = randomBytes(1_000_000);
    async function* pieces(): AsyncGenerator<Uint8Array> {
      for (let at = 0; at < large.byteLength; at += 70_000)
        yield Promise.resolve(large.subarray(at, at + 70_000));
    }
    const second = await channel.appendFile("logs/log", pieces());
    expect(second.size).toBe(1_000_004);
    expect(second.version).not.toBe(first.version);
    const expected = Buffer.concat([Buffer.from("one\n"), large]);
    expect((await contentOf(channel, "logs/log")).equals(expected)).toBe(true);
    async function* broken(): AsyncGenerator<Uint8Array> {
      yield Promise.resolve(large);
      throw new Error("the source broke");
    }
    await expect(channel.appendFile("logs/log", broken())).rejects.toThrow("the source broke");
    expect((await channel.stat("logs/log")).size).toBe(1_000_004);
    expect((await channel.listDirectory("logs")).entries.map(({ name }) => name)).toEqual(["log"]);
    await expect(channel.appendFile("logs", Buffer.from("x"))).rejects.toMatchObject(
      withCode("NOT_A_FILE"),
    );
  });

  it("does not mix appends of several callers", async () => {
    const { channel } = fixture();
    await Promise.all(
      Array.from({ length: 20 }, (_, i) =>
        channel.appendFile("mixed", Buffer.alloc(200_000, 97 + i)),
      ),
    );
    const runs = (await contentOf(channel, "mixed")).toString().match(/(.)\1*/g) ?? [];
    expect(runs.map((run) => run.length)).toEqual(Array.from({ length: 20 }, () => 200_000));
  });

  it("writes and appends only to the given version", async () => {
    const { channel } = fixture();
    const { version } = await channel.writeFile("versioned", Buffer.from("a"));
    expect((await channel.stat("versioned")).version).toBe(version);
    const next = await channel.writeFile("versioned", Buffer.from("b"), { ifVersion: version });
    expect(next.version).not.toBe(version);
    for (const late of [
      () => channel.writeFile("versioned", Buffer.from("c"), { ifVersion: version }),
      () => channel.appendFile("versioned", Buffer.from("c"), { ifVersion: version }),
      () => channel.writeFile("not there", Buffer.from("c"), { ifVersion: version }),
      () => channel.appendFile("not there", Buffer.from("c"), { ifVersion: version }),
    ])
      await expect(late()).rejects.toMatchObject(withCode("FILE_CHANGED"));
    expect((await contentOf(channel, "versioned")).toString()).toBe("b");
    await channel.appendFile("versioned", Buffer.from("c"), { ifVersion: next.version });
    expect((await contentOf(channel, "versioned")).toString()).toBe("bc");
  });

  it("gives each of many quick writes a different version", async () => {
    const { channel } = fixture();
    const versions = new Set<string>();
    for (let i = 0; i < 200; i++)
      versions.add((await channel.writeFile("quick", Buffer.from(String(i % 10)))).version);
    expect(versions.size).toBe(200);
  });

  it("loses no change of callers that read, change and write conditionally", async () => {
    const { channel } = fixture();
    await channel.writeFile("counter", Buffer.from("000"));
    let refused = 0;
    const increment = async (): Promise<void> => {
      for (;;) {
        const { version, body } = await channel.readFile("counter");
        const count = Number(Buffer.concat(await Array.fromAsync(body)).toString()) + 1;
        const content = Buffer.from(String(count).padStart(3, "0"));
        try {
          await channel.writeFile("counter", content, { ifVersion: version });
          return;
        } catch (error) {
          expect(error).toMatchObject(withCode("FILE_CHANGED"));
          refused++;
        }
      }
    };
    const worker = async (): Promise<void> => {
      for (let i = 0; i < 12; i++) await increment();
    };
    await Promise.all(Array.from({ length: 8 }, worker));
    expect((await contentOf(channel, "counter")).toString()).toBe("096");
    expect(refused).toBeGreaterThan(0);
  });

  it("copies files and trees with their modes, and overwrites only on request", async () => {
    const { channel } = fixture();
    await channel.writeFile("source/bin/tool", Buffer.from("tool"), { mode: 0o750 });
    await channel.writeFile("source/data", randomBytes(300_000));
    const link = writeTar([{ path: "link", type: "symlink", target: "bin/tool" }]);
    await channel.extractTar("source", link);
    expect(await channel.copy("source/bin/tool", "tool")).toMatchObject({ entries: 1, bytes: 4 });
    expect(await channel.stat("tool")).toMatchObject({ size: 4, mode: 0o750 });
    await expect(channel.copy("source/data", "tool")).rejects.toMatchObject(
      withCode("FILE_EXISTS"),
    );
    await channel.copy("source/data", "tool", { overwrite: true });
    expect((await contentOf(channel, "tool")).equals(await contentOf(channel, "source/data"))).toBe(
      true,
    );
    await expect(channel.copy("source", "target")).rejects.toMatchObject(withCode("NOT_A_FILE"));
    const copied = await channel.copy("source", "target", { recursive: true });
    expect(copied).toMatchObject({ entries: 5, bytes: 300_004, skipped: 0 });
    expect(await channel.stat("target/bin/tool")).toMatchObject({ size: 4, mode: 0o750 });
    expect(await channel.stat("target/link")).toMatchObject({
      type: "symlink",
      target: "bin/tool",
    });
    await channel.copy("source/link", "other-link");
    expect(await channel.stat("other-link")).toMatchObject({ type: "symlink" });
    await expect(channel.copy("source", "target", { recursive: true })).rejects.toMatchObject(
      withCode("FILE_EXISTS"),
    );
    await expect(
      channel.copy("source", "source/bin/inside", { recursive: true }),
    ).rejects.toMatchObject({
      ...withCode("INVALID_REQUEST"),
      message: expect.stringMatching(/\/source cannot be copied into itself$/u),
    });
    expect((await channel.listDirectory("source/bin")).entries.map(({ name }) => name)).toEqual([
      "tool",
    ]);
  });

  it("accepts paths that are not UTF-8 as bytes, and returns them", async () => {
    const { channel } = fixture();
    const raw = (name: string): Uint8Array => Buffer.from(`raw/${name}`, "latin1");
    const base64 = (name: string): unknown =>
      expect.toSatisfy((value: string) =>
        Buffer.from(value, "base64").toString("latin1").endsWith(`/raw/${name}`),
      );
    const written = await channel.writeFile(raw("a\xff"), Buffer.from("1"));
    expect(written).toMatchObject({
      path: expect.stringMatching(/\/raw\/a\ufffd$/) as unknown,
      rawPath: base64("a\xff"),
    });
    expect(await channel.stat(raw("a\xff"))).toMatchObject({ rawPath: base64("a\xff"), size: 1 });
    expect(await channel.realpath(raw("a\xff"))).toMatchObject({ rawPath: base64("a\xff") });
    const read = await channel.readFile(raw("a\xff"), { realPath: true });
    await read.body.cancel();
    expect(read.realPath).toMatchObject({ rawPath: base64("a\xff") });
    expect((await channel.appendFile(raw("a\xff"), Buffer.from("2"))).size).toBe(2);
    expect(await channel.copy(raw("a\xff"), raw("b\xfe"))).toMatchObject({
      rawPath: base64("b\xfe"),
    });
    expect(await channel.move(raw("b\xfe"), raw("c\xfd"))).toMatchObject({
      rawPath: base64("c\xfd"),
    });
    const { body } = await channel.readFile(raw("c\xfd"));
    expect(Buffer.concat(await Array.fromAsync(body)).toString()).toBe("12");
    expect(await channel.makeDirectory(raw("d\xfc"))).toMatchObject({ rawPath: base64("d\xfc") });
    await channel.extractTar(raw("d\xfc"), writeTar([{ path: "in", type: "file" }]));
    const { entries } = await channel.listDirectory(raw("d\xfc"));
    expect(entries).toMatchObject([{ name: "in", rawPath: base64("d\xfc/in") }]);
    const packed = readTar(
      Buffer.concat(await Array.fromAsync((await channel.createTar(raw("d\xfc"))).body)),
    );
    expect(packed).toMatchObject([{ path: "in" }]);
    const stop = new AbortController();
    const changes = await channel.watch(raw("d\xfc"), {}, stop.signal);
    await channel.writeFile(raw("d\xfc/new"), Buffer.from("x"));
    for await (const change of changes) {
      expect(change).toMatchObject({ rawPath: expect.any(String) as unknown });
      stop.abort();
    }
    await channel.remove(raw("d\xfc"), { recursive: true });
    for (const name of ["a\xff", "c\xfd"])
      expect(await channel.remove(raw(name))).toMatchObject({ rawPath: base64(name) });
    expect((await channel.listDirectory("raw")).entries).toEqual([]);
    // Text paths are returned as text, however they were given.
    expect(await channel.makeDirectory(Buffer.from("raw/plain"))).toEqual({
      path: expect.stringMatching(/\/raw\/plain$/) as unknown,
    });
    await expect(channel.stat(new Uint8Array())).rejects.toMatchObject(withCode("INVALID_REQUEST"));
    await expect(channel.stat(Buffer.from("a\0"))).rejects.toMatchObject(
      withCode("INVALID_REQUEST"),
    );
    await expect(channel.stat("\ud800")).rejects.toMatchObject(withCode("INVALID_REQUEST"));
  });

  it("shares its files with commands", async () => {
    const { channel } = fixture();
    const { path } = await channel.writeFile("shared", Buffer.from("from outside\n"));
    expect((await run(channel, ["cat", path])).stdout).toBe("from outside\n");
    await run(channel, `echo from inside > ${path}`);
    expect((await contentOf(channel, path)).toString()).toBe("from inside\n");
  });

  it("reports changes from the start of a watch to its end", async () => {
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
