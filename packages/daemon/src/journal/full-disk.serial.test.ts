import { execFile } from "node:child_process";
import { readdir, rm, stat, writeFile } from "node:fs/promises";
import { promisify } from "node:util";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { JournalWriter } from "../ports/exec-journal.ts";
import type { FileExecJournal } from "./file-exec-journal.ts";
import { JournalFixture, KIB, patternAt, readAll } from "./testing/journal-fixture.ts";

const run = promisify(execFile);

let fixture: JournalFixture;
let journal: FileExecJournal;

beforeEach(async () => {
  fixture = await JournalFixture.create();
  await run("mount", ["-t", "tmpfs", "-o", "size=512k", "tmpfs", fixture.directory]);
  journal = await fixture.open();
});

afterEach(async () => {
  // A journal can still be counting in the background.
  await run("umount", ["--lazy", fixture.directory]);
  await fixture[Symbol.asyncDispose]();
});

const full = { code: "STORAGE_FULL" };

async function append(writer: JournalWriter, length: number): Promise<void> {
  await writer.append("stdout", patternAt(writer.endOffset, length), 0);
}

async function appendUntilFull(writer: JournalWriter, length: number): Promise<void> {
  await expect(
    (async () => {
      for (;;) await append(writer, length);
    })(),
  ).rejects.toMatchObject(full);
}

/** Fills the disk except for this much. */
async function leave(bytes: number): Promise<void> {
  await writeFile(fixture.path("filler"), Buffer.alloc(512 * KIB - bytes));
}

async function makeRoom(): Promise<void> {
  await rm(fixture.path("filler"));
}

describe("on a full disk", () => {
  it.each([
    ["short", 1000],
    ["long", 40_000],
    ["split", 150_000],
  ])(
    "an append of a %s chunk returns STORAGE_FULL and leaves complete records",
    async (_, length) => {
      await leave(200 * KIB);
      const writer = await journal.write("s", "e");
      await appendUntilFull(writer, length);
      const { endOffset } = writer;
      expect(endOffset).toBeGreaterThan(100 * KIB);
      const check = async (reader: FileExecJournal, end: number): Promise<void> => {
        const { bytes, nextOffset } = await readAll(reader, "s", "e");
        expect(nextOffset).toBe(end);
        expect(bytes.equals(patternAt(0, end))).toBe(true);
      };
      await check(journal, endOffset);
      await check(await fixture.open(), endOffset);
      await makeRoom();
      await append(writer, length);
      await check(journal, endOffset + length);
      await writer.close();
      const again = await (await fixture.open()).write("s", "e");
      expect(again.endOffset).toBe(endOffset + length);
      await again.close();
      expect(fixture.warnings).toEqual([]);
    },
  );

  it.each([10, 40_000])("a command's first %d bytes leave no file behind", async (length) => {
    await leave(0);
    const writer = await journal.write("s", "e");
    await expect(append(writer, length)).rejects.toMatchObject(full);
    expect(writer.endOffset).toBe(0);
    expect(await readdir(fixture.path("s", "e"))).toEqual([]);
    await makeRoom();
    await append(writer, length);
    expect((await readAll(journal, "s", "e")).bytes.equals(patternAt(0, length))).toBe(true);
    await writer.close();
  });

  it("lost output is counted, reported to readers, and recorded as soon as there is space", async () => {
    const writer = await journal.write("s", "e");
    await append(writer, 100);
    await leave(0).catch((error: unknown) => expect(error).toMatchObject({ code: "ENOSPC" }));
    await writer.skip(900);
    await writer.skip(1000);
    expect([writer.endOffset, writer.droppedBytes]).toEqual([2000, 1900]);
    expect(fixture.warnings).toHaveLength(2);
    const page = await journal.read("s", "e", 100, KIB);
    expect(page).toEqual({ chunks: [], nextOffset: 2000, skippedBytes: 1900 });
    await makeRoom();
    await writer.close();
    const restarted = await fixture.open();
    const again = await restarted.write("s", "e");
    expect([again.endOffset, again.droppedBytes]).toEqual([2000, 1900]);
    await append(again, 10);
    expect(await readAll(restarted, "s", "e")).toMatchObject({
      skippedBytes: 1900,
      nextOffset: 2010,
    });
    await again.close();
  });

  it("a session can be removed", async () => {
    const writer = await journal.write("s", "e");
    await appendUntilFull(writer, 30_000);
    await journal.remove("s");
    expect(await readdir(fixture.directory)).toEqual([]);
    const next = await journal.write("s", "e");
    await append(next, 300 * KIB);
    expect((await stat(fixture.path("s", "e"))).isDirectory()).toBe(true);
    await next.close();
  });
});
