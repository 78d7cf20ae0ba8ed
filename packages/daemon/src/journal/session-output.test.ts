import { readdir, readlink } from "node:fs/promises";
import { setTimeout as sleep } from "node:timers/promises";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { FileExecJournal } from "./file-exec-journal.ts";
import {
  JournalFixture,
  KIB,
  patternAt,
  readAll,
  RECORD_ROOM as ROOM,
} from "./testing/journal-fixture.ts";

/** Longer than a file system needs to distinguish the ages of two directories. */
const FILESYSTEM_TICK_MS = 12;

let fixture: JournalFixture;

beforeEach(async () => (fixture = await JournalFixture.create()));

afterEach(async () => await fixture[Symbol.asyncDispose]());

async function write(journal: FileExecJournal, execId: string, bytes: number): Promise<void> {
  const writer = await journal.write("s", execId);
  await writer.append("stdout", patternAt(0, bytes), 0);
  await writer.close();
  // Outputs are ordered by the times at which their directories were created.
  await sleep(FILESYSTEM_TICK_MS);
}

async function execs(): Promise<readonly string[]> {
  return (await readdir(fixture.path("s"))).sort();
}

describe("a session's budget", () => {
  /** Room for three outputs of 100 KiB with their overhead, but not for four. */
  const budget = { maxBytesPerSession: 390 * KIB };

  it("deletes the oldest output when a command starts", async () => {
    const journal = await fixture.open(budget);
    for (const execId of ["c", "b", "a"]) await write(journal, execId, 100 * KIB);
    await (await journal.write("s", "none")).close();
    await write(journal, "z", 100 * KIB);
    expect(await execs()).toEqual(["a", "b", "c", "z"]);
    const writer = await journal.write("s", "new");
    await expect.poll(execs).toEqual(["a", "b", "z"]);
    expect(await journal.read("s", "c", 0, KIB)).toEqual({
      chunks: [],
      nextOffset: 0,
      skippedBytes: 0,
    });
    expect((await readAll(journal, "s", "b")).bytes.equals(patternAt(0, 100 * KIB))).toBe(true);
    await writer.close();
  });

  it("does not delete output that is being written", async () => {
    const journal = await fixture.open(budget);
    const oldest = await journal.write("s", "oldest");
    await oldest.append("stdout", patternAt(0, 100 * KIB), 0);
    for (const execId of ["a", "b", "c"]) await write(journal, execId, 100 * KIB);
    const writer = await journal.write("s", "new");
    await expect.poll(execs).toEqual(["b", "c", "oldest"]);
    await oldest.append("stdout", patternAt(100 * KIB, 10), 0);
    const { bytes } = await readAll(journal, "s", "oldest");
    expect(bytes.equals(patternAt(0, 100 * KIB + 10))).toBe(true);
    await Promise.all([oldest.close(), writer.close()]);
  });

  it("includes the output of earlier processes, ordered by its start", async () => {
    const before = await fixture.open();
    for (const execId of ["d", "c", "b", "a"]) await write(before, execId, 100 * KIB);
    const journal = await fixture.open(budget);
    const again = await journal.write("s", "d");
    await expect.poll(execs).toEqual(["a", "b", "d"]);
    expect(again.endOffset).toBe(100 * KIB);
    await again.close();
    await (await journal.write("s", "new")).close();
    await write(journal, "e", 100 * KIB);
    const writer = await journal.write("s", "newer");
    await expect.poll(execs).toEqual(["a", "b", "e"]);
    await writer.close();
  });

  it.each([0, 5])(
    "counts neither dropped bytes, nor output twice that is continued %d times",
    async (times) => {
      // All of it takes 1220 KiB, without the smallest and oldest 1212.
      const journal = await fixture.open({ maxBytesPerSession: 1216 * KIB });
      await write(journal, "oldest", 10);
      const writer = await journal.write("s", "big");
      for (let index = 0; index < 40; index += 1) {
        await writer.append("stdout", patternAt(writer.endOffset, ROOM), 0);
      }
      await writer.close();
      for (let index = 0; index < times; index += 1)
        await (await journal.write("s", "big")).close();
      await write(journal, "other", 10);
      await write(journal, "youngest", 100 * KIB);
      const trigger = await journal.write("s", "trigger");
      await expect.poll(execs).toEqual(["big", "other", "youngest"]);
      expect((await readAll(journal, "s", "big")).bytes.length).toBe(16 * ROOM);
      expect(await execs()).toEqual(["big", "other", "youngest"]);
      await trigger.close();
    },
  );

  it("can delete output that a caller wants to continue, which then starts again", async () => {
    const journal = await fixture.open(budget);
    for (const execId of ["a", "b", "c", "d"]) await write(journal, execId, 100 * KIB);
    await (await journal.write("s", "first-trigger")).close();
    await expect.poll(execs).toEqual(["b", "c", "d"]);
    await write(journal, "e", 100 * KIB);
    const trigger = await journal.write("s", "trigger");
    const writer = await journal.write("s", "b");
    expect(writer.endOffset).toBe(0);
    await writer.append("stdout", patternAt(0, 10), 0);
    expect((await readAll(journal, "s", "b")).bytes).toEqual(patternAt(0, 10));
    expect(await execs()).toEqual(["b", "c", "d", "e"]);
    await Promise.all([trigger.close(), writer.close()]);
  });
});

describe("remove()", () => {
  it("frees all bytes of a session and does not affect others", async () => {
    const journal = await fixture.open();
    await write(journal, "a", 100 * KIB);
    await write(journal, "b", 10);
    const other = await journal.write("t", "a");
    await other.append("stdout", patternAt(0, 10), 0);
    await journal.read("s", "a", 0, KIB);
    await journal.remove("s");
    expect(await journal.sessions()).toEqual(["t"]);
    expect((await readAll(journal, "s", "a")).bytes.length).toBe(0);
    await other.append("stdout", patternAt(10, 10), 0);
    expect((await readAll(journal, "t", "a")).bytes).toEqual(patternAt(0, 20));
    await other.close();
    await journal.remove("s");
    await journal.remove("unknown");
  });

  it("ends writers: their appends reject with CANCELLED and no file stays open", async () => {
    const journal = await fixture.open();
    const quiet = await journal.write("s", "quiet");
    const short = await journal.write("s", "short");
    await short.append("stdout", patternAt(0, 10), 0);
    const long = await journal.write("s", "long");
    const appending = long.append("stdout", patternAt(0, 500 * KIB), 0);
    const [removed, appended] = await Promise.allSettled([journal.remove("s"), appending]);
    const cancelled = { code: "CANCELLED" };
    expect(removed.status).toBe("fulfilled");
    expect(appended).toMatchObject({ status: "rejected", reason: cancelled });
    for (const writer of [quiet, short, long]) {
      await expect(writer.append("stdout", patternAt(0, 10), 0)).rejects.toMatchObject(cancelled);
      await expect(writer.skip(1)).rejects.toMatchObject(cancelled);
      await writer.close();
    }
    expect(await readdir(fixture.directory)).toEqual([]);
    expect(await openFilesBelow(fixture.directory)).toEqual([]);
  });

  it("does not wait for readers that an append waits for", async () => {
    const journal = await fixture.open();
    const called = Promise.withResolvers<void>();
    const writer = await journal.write("s", "e", async () => {
      called.resolve();
      await new Promise(() => undefined);
    });
    const appending = (async () => {
      for (;;) await writer.append("stdout", patternAt(writer.endOffset, ROOM), 0);
    })();
    await called.promise;
    const [appended] = await Promise.allSettled([appending, journal.remove("s")]);
    expect(appended).toMatchObject({ status: "rejected", reason: { code: "CANCELLED" } });
    expect(await readdir(fixture.directory)).toEqual([]);
  });

  it("can happen while a writer opens, and lets a new one start from nothing", async () => {
    await write(await fixture.open(), "e", 100 * KIB);
    const journal = await fixture.open();
    const [opened, removed, again] = await Promise.allSettled([
      journal.write("s", "e"),
      journal.remove("s"),
      journal.write("s", "e"),
      journal.remove("s"),
    ]);
    expect(opened).toMatchObject({ status: "rejected", reason: { code: "CANCELLED" } });
    expect([removed.status, again.status]).toEqual(["fulfilled", "fulfilled"]);
    if (again.status === "rejected") return;
    const writer = again.value;
    expect(writer.endOffset).toBe(0);
    await writer.append("stdout", patternAt(0, 10), 0);
    expect((await readAll(journal, "s", "e")).bytes).toEqual(patternAt(0, 10));
    await writer.close();
  });
});

/** Including files that no longer have a name. */
async function openFilesBelow(directory: string): Promise<readonly string[]> {
  const names = await readdir("/proc/self/fd");
  const targets = names.map(
    async (name) => await readlink(`/proc/self/fd/${name}`).catch(() => ""),
  );
  return (await Promise.all(targets)).filter((target) => target.startsWith(directory));
}
