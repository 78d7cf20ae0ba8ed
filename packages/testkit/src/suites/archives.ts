/** Packing and unpacking archives. */
import { expect, it } from "vitest";
import type { FixtureOf } from "../channel-fixture.ts";
import { readTar, writeTar } from "../tar-archive.ts";
import { contentOf, withCode } from "./run-command.ts";

export function archiveSuite(fixture: FixtureOf): void {
  it("unpacks and packs the same tree", async () => {
    const { channel } = fixture();
    const entries = [
      { path: "dir", type: "dir" },
      { path: "dir/empty", type: "file", bytes: Buffer.alloc(0) },
      { path: "dir/script", type: "file", mode: 0o755, bytes: Buffer.from("#!/bin/sh\n") },
      { path: "large", type: "file", bytes: Buffer.alloc(700_001, "z") },
      { path: "link", type: "symlink", target: "dir/script" },
    ] as const;
    await channel.makeDirectory("unpacked");
    const unpacked = await channel.extractTar("unpacked", writeTar(entries));
    expect(unpacked).toEqual({ entries: 5, bytes: 700_011 });
    expect(await channel.stat("unpacked/link")).toMatchObject({
      type: "symlink",
      target: "dir/script",
    });
    expect(await channel.stat("unpacked/dir/script")).toMatchObject({ type: "file", mode: 0o755 });
    expect((await contentOf(channel, "unpacked/large")).byteLength).toBe(700_001);

    const packed = readTar(
      Buffer.concat(await Array.fromAsync((await channel.createTar("unpacked")).body)),
    );
    const summary = packed
      .map((entry) => [
        entry.path.replace(/^\.\//, ""),
        entry.type,
        entry.bytes?.byteLength ?? 0,
        entry.target,
      ])
      .filter(([path]) => path !== "" && path !== ".");
    expect(summary.sort((a, b) => String(a[0]).localeCompare(String(b[0])))).toEqual([
      ["dir", "dir", 0, undefined],
      ["dir/empty", "file", 0, undefined],
      ["dir/script", "file", 10, undefined],
      ["large", "file", 700_001, undefined],
      ["link", "symlink", 0, "dir/script"],
    ]);
  });

  it("omits excluded paths, and everything below them", async () => {
    const { channel } = fixture();
    for (const path of [
      "a.log",
      "keep.txt",
      "node_modules/x/index.js",
      "src/node_modules/y.js",
      "src/b.log",
      "src/build/out",
      "src/main.ts",
    ])
      await channel.writeFile(`project/${path}`, Buffer.from("x"));
    const exclude = ["node_modules", "*.log", "src/build"];
    const { body, unreadable } = await channel.createTar("project", { exclude });
    const packed = readTar(Buffer.concat(await Array.fromAsync(body)));
    expect(packed.map(({ path }) => path)).toEqual(["keep.txt", "src", "src/main.ts"]);
    expect(unreadable).toBe(0);
  });

  it("accepts an archive piece by piece", async () => {
    const { channel } = fixture();
    const archive = writeTar([{ path: "file", type: "file", bytes: Buffer.alloc(300_000, 7) }]);
    async function* pieces(): AsyncGenerator<Uint8Array> {
      for (let at = 0; at < archive.byteLength; at += 1_000)
        yield Promise.resolve(archive.subarray(at, at + 1_000));
    }
    await channel.makeDirectory("by-pieces");
    expect(await channel.extractTar("by-pieces", pieces())).toEqual({ entries: 1, bytes: 300_000 });
    expect((await channel.stat("by-pieces/file")).size).toBe(300_000);
  });

  it("never lets an archive reach outside its directory", async () => {
    const { channel } = fixture();
    await channel.makeDirectory("jail");
    const escapes = [
      [{ path: "../escaped", type: "file", bytes: Buffer.from("x") }],
      [{ path: "/escaped", type: "file", bytes: Buffer.from("x") }],
      [
        { path: "out", type: "symlink", target: ".." },
        { path: "out/escaped", type: "file", bytes: Buffer.from("x") },
      ],
    ] as const;
    for (const entries of escapes) {
      // It may refuse the archive or unpack it below the directory; only the escape is forbidden.
      await channel.extractTar("jail", writeTar(entries)).catch(() => undefined);
      await expect(channel.stat("escaped")).rejects.toMatchObject(withCode("FILE_NOT_FOUND"));
      await expect(channel.stat("/escaped")).rejects.toMatchObject(withCode("FILE_NOT_FOUND"));
    }
  });

  it("refuses devices, and archives beyond the limits", async () => {
    const { channel } = fixture();
    await channel.makeDirectory("limited");
    const device = writeTar([{ path: "sda", type: "device" }]);
    await expect(channel.extractTar("limited", device)).rejects.toMatchObject(
      withCode("PERMISSION_DENIED"),
    );
    const two = writeTar([
      { path: "one", type: "file", bytes: Buffer.alloc(100) },
      { path: "two", type: "file", bytes: Buffer.alloc(100) },
    ]);
    await expect(channel.extractTar("limited", two, { maxBytes: 150 })).rejects.toMatchObject(
      withCode("PAYLOAD_TOO_LARGE"),
    );
    await expect(channel.extractTar("limited", two, { maxEntries: 1 })).rejects.toMatchObject(
      withCode("PAYLOAD_TOO_LARGE"),
    );
  });
}
