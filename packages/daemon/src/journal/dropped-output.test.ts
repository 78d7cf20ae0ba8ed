import { stat } from "node:fs/promises";
import { array, assert, asyncProperty, constant, integer, oneof, record } from "fast-check";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { JournalWriter } from "../ports/exec-journal.ts";
import type { FileExecJournal } from "./file-exec-journal.ts";
import {
  JournalFixture,
  KIB,
  MIB,
  patternAt,
  readAll,
  RECORD_ROOM as ROOM,
} from "./testing/journal-fixture.ts";

let fixture: JournalFixture;
let journal: FileExecJournal;

beforeEach(async () => {
  fixture = await JournalFixture.create();
  journal = await fixture.open();
});

afterEach(async () => await fixture[Symbol.asyncDispose]());

async function append(writer: JournalWriter, length: number): Promise<void> {
  await writer.append("stdout", patternAt(writer.endOffset, length), 0);
}

/** Fills that many segments, each with one record. */
async function fillSegments(writer: JournalWriter, count: number): Promise<void> {
  for (let index = 0; index < count; index += 1) await append(writer, ROOM);
}

describe("output beyond the limit", () => {
  it("keeps its first half, and the newest of the rest", async () => {
    const writer = await journal.write("s", "e");
    await fillSegments(writer, 16);
    expect(writer.droppedBytes).toBe(0);
    await fillSegments(writer, 4);
    expect(writer.droppedBytes).toBe(4 * ROOM);
    expect(writer.endOffset).toBe(20 * ROOM);
    const { bytes, skippedBytes } = await readAll(journal, "s", "e");
    expect(skippedBytes).toBe(4 * ROOM);
    const kept = Buffer.concat([patternAt(0, 8 * ROOM), patternAt(12 * ROOM, 8 * ROOM)]);
    expect(bytes.equals(kept)).toBe(true);
    expect(await fixture.segments("s", "e")).toHaveLength(16);
    await writer.close();
  });

  it("never uses more than the allowed disk space, even in small pieces", async () => {
    const writer = await journal.write("s", "e");
    const piece = Buffer.alloc(50, "x");
    for (let index = 0; index < 18_000; index += 1) await writer.append("stderr", piece, 0);
    const sizes = (await fixture.segments("s", "e")).map(async (path) => (await stat(path)).size);
    const total = (await Promise.all(sizes)).reduce((sum, size) => sum + size, 0);
    expect(total).toBeLessThanOrEqual(MIB);
    expect(total).toBeGreaterThan(MIB - 2 * 64 * KIB);
    const { bytes, skippedBytes } = await readAll(journal, "s", "e");
    expect(bytes.length + skippedBytes).toBe(18_000 * 50);
    expect(writer.droppedBytes).toBe(skippedBytes);
    await writer.close();
  });

  it("reports exactly how much is missing after a cursor", async () => {
    const writer = await journal.write("s", "e");
    await fillSegments(writer, 18);
    await writer.close();
    for (const reader of [journal, await fixture.open()]) {
      for (const gone of [2 * ROOM, 2 * ROOM - 1, ROOM, 1]) {
        const page = await reader.read("s", "e", 10 * ROOM - gone, 100);
        expect(page.skippedBytes).toBe(gone);
        expect(page.nextOffset).toBe(10 * ROOM + 100);
        expect(page.chunks).toMatchObject([{ offset: 10 * ROOM, seq: 10 }]);
      }
      expect((await reader.read("s", "e", 10 * ROOM, 100)).skippedBytes).toBe(0);
    }
  });

  it("ends a page before the gap, so chunks of a page are contiguous", async () => {
    const writer = await journal.write("s", "e");
    await fillSegments(writer, 17);
    await writer.close();
    const before = await journal.read("s", "e", 8 * ROOM - 10, KIB);
    expect(before).toMatchObject({ nextOffset: 8 * ROOM, skippedBytes: 0 });
    const behind = await journal.read("s", "e", before.nextOffset, KIB);
    expect(behind).toMatchObject({ nextOffset: 9 * ROOM + KIB, skippedBytes: ROOM });
  });

  it("is dropped only after beforeDrop has resolved, up to the announced offset", async () => {
    const asked: number[] = [];
    let allow = Promise.withResolvers<void>();
    const called = Promise.withResolvers<void>();
    const writer = await journal.write("s", "e", async (upToOffset) => {
      asked.push(upToOffset);
      called.resolve();
      await allow.promise;
    });
    await fillSegments(writer, 16);
    expect(asked).toEqual([]);
    let isAppended = false;
    const appending = append(writer, ROOM).then(() => (isAppended = true));
    await called.promise;
    const page = await journal.read("s", "e", 8 * ROOM, ROOM);
    expect(page.skippedBytes).toBe(0);
    expect(Buffer.from(page.chunks[0]!.bytes).equals(patternAt(8 * ROOM, ROOM))).toBe(true);
    expect([isAppended, writer.droppedBytes]).toEqual([false, 0]);
    expect(await fixture.segments("s", "e")).toHaveLength(16);
    allow.resolve();
    await appending;
    expect((await journal.read("s", "e", 8 * ROOM, ROOM)).skippedBytes).toBe(ROOM);
    allow = Promise.withResolvers<void>();
    allow.resolve();
    await fillSegments(writer, 2);
    expect(asked).toEqual([9 * ROOM, 10 * ROOM, 11 * ROOM]);
    await writer.close();
  });

  it.each([
    ["of the same process", true],
    ["that knows the files only", false],
  ])("can be dropped while a reader %s is about to read it", async (_, isSame) => {
    const reader = isSame ? journal : await fixture.open();
    const writer = await journal.write("s", "e");
    await fillSegments(writer, 16);
    const state = { isWriting: true };
    const flood = fillSegments(writer, 150).finally(() => (state.isWriting = false));
    while (state.isWriting) {
      const { chunks, skippedBytes } = await reader.read("s", "e", 8 * ROOM, 3 * ROOM);
      expect(chunks[0]!.offset).toBe(8 * ROOM + skippedBytes);
      for (const { offset, bytes } of chunks) {
        expect(patternAt(offset, bytes.length).equals(bytes)).toBe(true);
      }
    }
    await flood;
    await writer.close();
  });

  it("stays if beforeDrop fails, and the append fails", async () => {
    const writer = await journal.write("s", "e", async () => {
      await Promise.reject(new Error("not yet"));
    });
    await fillSegments(writer, 16);
    await expect(append(writer, ROOM)).rejects.toMatchObject({ code: "INTERNAL_ERROR" });
    expect([writer.endOffset, writer.droppedBytes]).toEqual([16 * ROOM, 0]);
    expect((await readAll(journal, "s", "e")).skippedBytes).toBe(0);
    await writer.close();
  });
});

describe("lost output", () => {
  it("is a gap that is counted and reported", async () => {
    const writer = await journal.write("s", "e");
    await append(writer, 10);
    await writer.skip(1000);
    await append(writer, 5);
    expect([writer.endOffset, writer.droppedBytes, writer.stdoutBytes]).toEqual([1015, 1000, 15]);
    await writer.close();
    expect(await journal.read("s", "e", 0, KIB)).toMatchObject({ nextOffset: 10, skippedBytes: 0 });
    const page = await journal.read("s", "e", 10, KIB);
    expect(page).toMatchObject({ nextOffset: 1015, skippedBytes: 1000 });
    expect(page.chunks).toMatchObject([{ seq: 1, offset: 1010 }]);
    expect((await journal.read("s", "e", 500, KIB)).skippedBytes).toBe(510);
  });

  it.each(["before anything else", "at the end"])("%s survives a restart", async (where) => {
    const writer = await journal.write("s", "e");
    if (where === "at the end") await append(writer, 10);
    await writer.skip(90);
    const { endOffset } = writer;
    const restarted = await fixture.open();
    const again = await restarted.write("s", "e");
    expect([again.endOffset, again.droppedBytes]).toEqual([endOffset, 90]);
    const { nextOffset, skippedBytes } = await readAll(restarted, "s", "e");
    expect([nextOffset, skippedBytes]).toEqual([endOffset, 90]);
    await Promise.all([writer.close(), again.close()]);
  });

  it("in many pieces needs no more files than in one", async () => {
    const writer = await journal.write("s", "e");
    await append(writer, 10);
    for (let index = 0; index < 40; index += 1) await writer.skip(7);
    await append(writer, 10);
    expect(await fixture.segments("s", "e")).toHaveLength(2);
    expect([writer.endOffset, writer.droppedBytes]).toEqual([300, 280]);
    const { bytes, skippedBytes } = await readAll(journal, "s", "e");
    expect(skippedBytes).toBe(280);
    expect(bytes).toEqual(Buffer.concat([patternAt(0, 10), patternAt(290, 10)]));
    await writer.close();
  });
});

it("whatever is appended, lost, dropped and restarted, counts and content match", async () => {
  const step = oneof(
    record({ kind: constant("append" as const), bytes: integer({ min: 1, max: 150_000 }) }),
    record({ kind: constant("skip" as const), bytes: integer({ min: 1, max: 100_000 }) }),
    record({ kind: constant("restart" as const), bytes: constant(0) }),
  );
  let run = 0;
  await assert(
    asyncProperty(array(step, { minLength: 10, maxLength: 60, size: "max" }), async (steps) => {
      const execId = `e${(run += 1)}`;
      let current = journal;
      let writer = await current.write("s", execId);
      let appended = 0;
      for (const { kind, bytes } of steps) {
        if (kind === "append") {
          await append(writer, bytes);
          appended += bytes;
        } else if (kind === "skip") {
          await writer.skip(bytes);
        } else {
          const counts = [writer.endOffset, writer.stdoutBytes, writer.droppedBytes];
          await writer.close();
          current = await fixture.open();
          writer = await current.write("s", execId);
          expect([writer.endOffset, writer.stdoutBytes, writer.droppedBytes]).toEqual(counts);
        }
      }
      expect(writer.stdoutBytes).toBe(appended);
      await writer.close();
      const output = await readAll(current, "s", execId);
      expect(output.skippedBytes).toBe(writer.droppedBytes);
      expect(output.nextOffset).toBe(writer.endOffset);
      for (const { offset, bytes } of output.chunks) {
        expect(patternAt(offset, bytes.length).equals(bytes)).toBe(true);
      }
      await current.remove("s");
    }),
    { numRuns: 15 },
  );
  expect(fixture.warnings).toEqual([]);
});
