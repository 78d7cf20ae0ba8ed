import { readdir, stat } from "node:fs/promises";
import { setImmediate as letOthersWork } from "node:timers/promises";
import { array, asyncProperty, assert, constantFrom, integer, record } from "fast-check";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { OutputStream } from "@sandkasten/protocol";
import type { JournalChunk } from "../ports/exec-journal.ts";
import type { FileExecJournal } from "./file-exec-journal.ts";
import { JournalFixture, KIB, MIB, patternAt, readAll } from "./testing/journal-fixture.ts";

let fixture: JournalFixture;
let journal: FileExecJournal;

beforeEach(async () => {
  fixture = await JournalFixture.create();
  journal = await fixture.open();
});

afterEach(async () => await fixture[Symbol.asyncDispose]());

const text = (value: string): Buffer => Buffer.from(value);

/** A few chunks of both streams: "hello", " ", "wörld\n". */
async function writeGreeting(execId = "e"): Promise<Buffer> {
  const writer = await journal.write("s", execId);
  await writer.append("stdout", text("hello"), 1000);
  await writer.append("stderr", text(" "), 1000.5);
  await writer.append("stdout", text("wörld\n"), 1002);
  await writer.close();
  return text("hello wörld\n");
}

describe("written output is read back", () => {
  it("with its streams, sequence numbers, offsets and times", async () => {
    await writeGreeting();
    const { chunks } = await journal.read("s", "e", 0, KIB);
    const seen = chunks.map((chunk) => ({ ...chunk, bytes: Buffer.from(chunk.bytes).toString() }));
    expect(seen).toEqual([
      { stream: "stdout", seq: 0, offset: 0, timestampMs: 1000, bytes: "hello" },
      { stream: "stderr", seq: 1, offset: 5, timestampMs: 1000.5, bytes: " " },
      { stream: "stdout", seq: 2, offset: 6, timestampMs: 1002, bytes: "wörld\n" },
    ]);
  });

  it("byte by byte, with all sizes of chunks and pages, by this process and the next", async () => {
    const chunk = record({
      stream: constantFrom<OutputStream>("stdout", "stderr"),
      length: constantFrom(1, 2, 63, 1000, 16 * KIB, 16 * KIB + 1, 65_456, 65_457, 200_000),
    });
    let run = 0;
    await assert(
      asyncProperty(
        array(chunk, { maxLength: 8 }),
        integer({ min: 1, max: 70_000 }),
        async (chunks, maxBytes) => {
          const execId = `e${(run += 1)}`;
          const writer = await journal.write("s", execId);
          for (const { stream, length } of chunks) {
            await writer.append(stream, patternAt(writer.endOffset, length), 0);
          }
          const total = chunks.reduce((sum, { length }) => sum + length, 0);
          const ofStream = (stream: string): number =>
            chunks.reduce((sum, each) => sum + (each.stream === stream ? each.length : 0), 0);
          expect([
            writer.endOffset,
            writer.stdoutBytes,
            writer.stderrBytes,
            writer.droppedBytes,
          ]).toEqual([total, ofStream("stdout"), ofStream("stderr"), 0]);
          const pageBytes = total < KIB ? Math.min(maxBytes, 100) : Math.max(maxBytes, 5000);
          const live = await readAll(journal, "s", execId, { maxBytes: pageBytes });
          await writer.close();
          const again = await readAll(await fixture.open(), "s", execId, { maxBytes: pageBytes });
          for (const output of [live, again]) {
            expect(output.bytes.equals(patternAt(0, total))).toBe(true);
            expect(bytesOf(output.chunks, "stderr")).toBe(ofStream("stderr"));
            expect(output.skippedBytes).toBe(0);
            expect(isInOrder(output.chunks)).toBe(true);
          }
        },
      ),
      { numRuns: 25 },
    );
  });

  it("from a cursor at every offset and with pages of every size", async () => {
    const whole = await writeGreeting();
    for (let offset = 0; offset <= whole.length; offset += 1) {
      for (let maxBytes = 1; maxBytes <= whole.length + 1; maxBytes += 1) {
        const page = await journal.read("s", "e", offset, maxBytes);
        const bytes = Buffer.concat(page.chunks.map((chunk) => chunk.bytes));
        expect(bytes).toEqual(whole.subarray(offset, offset + maxBytes));
        expect(page.nextOffset).toBe(offset + bytes.length);
        expect(page.skippedBytes).toBe(0);
        expect(isInOrder(page.chunks, offset)).toBe(true);
      }
    }
  });

  it("by several readers at different positions", async () => {
    const writer = await journal.write("s", "e");
    for (let index = 0; index < 300; index += 1) {
      await writer.append("stdout", patternAt(writer.endOffset, 1 + ((index * 37) % 999)), 0);
    }
    await writer.close();
    const starts = [0, 1, 70_000, writer.endOffset - 1];
    const outputs = await Promise.all(
      starts.map(async (offset) => await readAll(journal, "s", "e", { offset, maxBytes: 3000 })),
    );
    for (const [index, { bytes }] of outputs.entries()) {
      const start = starts[index]!;
      expect(bytes.equals(patternAt(start, writer.endOffset - start))).toBe(true);
    }
  });

  it("into memory that belongs to the reader", async () => {
    const whole = await writeGreeting();
    const page = await journal.read("s", "e", 0, KIB);
    for (const chunk of page.chunks) chunk.bytes.fill(0);
    expect((await readAll(journal, "s", "e")).bytes).toEqual(whole);
  });

  it("into given memory, however small it is", async () => {
    const writer = await journal.write("s", "e");
    for (const length of [10, 70_000, 3, 16 * KIB, 90_000]) {
      await writer.append("stdout", patternAt(writer.endOffset, length), 0);
    }
    for (const size of [0, 100, 70 * KIB, MIB]) {
      const memory = Buffer.alloc(size);
      const { chunks } = await journal.read("s", "e", 0, MIB, memory);
      const bytes = Buffer.concat(chunks.map((chunk) => chunk.bytes));
      expect(bytes.equals(patternAt(0, writer.endOffset))).toBe(true);
      expect(chunks[0]?.bytes.buffer === memory.buffer).toBe(size >= 70 * KIB);
    }
    await writer.close();
  });

  it("only into given memory, because a page of it does not end inside a chunk", async () => {
    const writer = await journal.write("s", "e");
    for (let index = 0; index < 20; index += 1)
      await writer.append("stdout", patternAt(writer.endOffset, 50 * KIB), 0);
    const memory = Buffer.alloc(140 * KIB);
    let offset = 0;
    while (offset < writer.endOffset) {
      const { chunks, nextOffset } = await journal.read("s", "e", offset, 128 * KIB, memory);
      expect(chunks.every(({ bytes }) => bytes.buffer === memory.buffer)).toBe(true);
      const bytes = Buffer.concat(chunks.map((chunk) => chunk.bytes));
      expect(bytes.equals(patternAt(offset, nextOffset - offset))).toBe(true);
      offset = nextOffset;
    }
    // A chunk that is longer than a page is split.
    const { chunks } = await journal.read("s", "e", 0, 30 * KIB, memory);
    expect(chunks.map(({ bytes }) => bytes.length)).toEqual([30 * KIB]);
    await writer.close();
  });

  it("in pages of a bounded number of chunks", async () => {
    const writer = await journal.write("s", "e");
    for (let index = 0; index < 9000; index += 1) {
      await writer.append("stdout", Uint8Array.of(index & 0xff), 0);
    }
    await writer.close();
    expect((await journal.read("s", "e", 0, MIB)).chunks.length).toBe(8192);
    expect((await readAll(journal, "s", "e", { maxBytes: MIB })).bytes.length).toBe(9000);
  });

  it("after the output of an earlier writer", async () => {
    const greeting = await writeGreeting();
    const writer = await journal.write("s", "e");
    expect([writer.endOffset, writer.stdoutBytes, writer.stderrBytes]).toEqual([
      greeting.length,
      greeting.length - 1,
      1,
    ]);
    await writer.append("stderr", text("again"), 2000);
    await writer.close();
    const { bytes, chunks } = await readAll(journal, "s", "e");
    expect(bytes.toString()).toBe("hello wörld\nagain");
    expect(chunks.map(({ seq }) => seq)).toEqual([0, 1, 2, 3]);
  });
});

describe("a reader during a write", () => {
  it.each([
    ["of the same process", true],
    ["that knows the files only", false],
  ])("%s sees a growing prefix of the output and finally all of it", async (_, isSame) => {
    const reader = isSame ? journal : await fixture.open();
    const writer = await journal.write("s", "e");
    const total = 900 * KIB;
    const state = { isWriting: true };
    const writing = (async () => {
      for (let index = 0; writer.endOffset < total; index += 1) {
        const length = Math.min(total - writer.endOffset, 1 + ((index * 7919) % 40_000));
        await writer.append(
          index % 3 === 0 ? "stderr" : "stdout",
          patternAt(writer.endOffset, length),
          0,
        );
      }
      state.isWriting = false;
    })();
    const parts: Uint8Array[] = [];
    let cursor = 0;
    let pages = 0;
    while (state.isWriting || cursor < total) {
      const page = await reader.read("s", "e", cursor, 30_000);
      expect(page.skippedBytes).toBe(0);
      expect(isInOrder(page.chunks, cursor)).toBe(true);
      parts.push(...page.chunks.map((chunk) => chunk.bytes));
      if (page.nextOffset === cursor) await letOthersWork();
      cursor = page.nextOffset;
      pages += 1;
    }
    await writing;
    await writer.close();
    expect(pages).toBeGreaterThan(30);
    expect(Buffer.concat(parts).equals(patternAt(0, total))).toBe(true);
    expect(fixture.warnings).toEqual([]);
  });

  it("repeatedly reads nothing until there is more", async () => {
    const empty = { chunks: [], nextOffset: 0, skippedBytes: 0 };
    expect(await journal.read("s", "e", 0, KIB)).toEqual(empty);
    const writer = await journal.write("s", "e");
    expect(await journal.read("s", "e", 0, KIB)).toEqual(empty);
    await writer.append("stdout", text("one"), 0);
    const page = await journal.read("s", "e", 0, KIB);
    expect(page.nextOffset).toBe(3);
    expect(await journal.read("s", "e", 3, KIB)).toEqual({ ...empty, nextOffset: 3 });
    expect(await journal.read("s", "e", 10, KIB)).toEqual({ ...empty, nextOffset: 10 });
    await writer.append("stdout", text("two"), 0);
    expect((await journal.read("s", "e", 3, KIB)).chunks[0]).toMatchObject({ seq: 1, offset: 3 });
    await writer.close();
    expect(await journal.read("s", "e", 10, KIB)).toEqual({ ...empty, nextOffset: 10 });
  });
});

describe("the files", () => {
  it("are not created for a command without output", async () => {
    const writer = await journal.write("s", "e");
    await writer.append("stdout", new Uint8Array(), 0);
    await writer.skip(0);
    await writer.close();
    expect(await readdir(fixture.directory)).toEqual([]);
    expect(await journal.sessions()).toEqual([]);
  });

  it("are accessible to the daemon only", async () => {
    await writeGreeting();
    const [segment] = await fixture.segments("s", "e");
    const modes = [fixture.path("s"), fixture.path("s", "e"), segment!].map(async (path) =>
      ((await stat(path)).mode & 0o777).toString(8),
    );
    expect(await Promise.all(modes)).toEqual(["700", "700", "600"]);
  });

  it("are listed by session", async () => {
    await writeGreeting();
    const writer = await journal.write("s2", "e");
    await writer.append("stdout", text("x"), 0);
    await writer.close();
    expect((await journal.sessions()).toSorted()).toEqual(["s", "s2"]);
    expect((await (await fixture.open()).sessions()).toSorted()).toEqual(["s", "s2"]);
  });
});

describe("ids", () => {
  const bad = ["", ".", "..", "../x", "a/b", "x.js", "a\0b", "a\n", "ü"];

  it.each([
    ...bad.map((id) => [JSON.stringify(id), id] as const),
    ["one character too long", "a".repeat(129)] as const,
    ["much too long", "a".repeat(10_240)] as const,
  ])("that are %s result in no path", async (_, id) => {
    const refused = { code: "INVALID_REQUEST" };
    await expect(journal.write(id, "e")).rejects.toMatchObject(refused);
    await expect(journal.write("s", id)).rejects.toMatchObject(refused);
    await expect(journal.read(id, "e", 0, 1)).rejects.toMatchObject(refused);
    await expect(journal.read("s", id, 0, 1)).rejects.toMatchObject(refused);
    await expect(journal.remove(id)).rejects.toMatchObject(refused);
    expect(await readdir(fixture.directory)).toEqual([]);
  });

  it("of maximum length are accepted", async () => {
    const id = `${"Aa0_-".repeat(25)}xyz`;
    const writer = await journal.write(id, id);
    await writer.append("stdout", text("x"), 0);
    await writer.close();
    expect((await readAll(journal, id, id)).bytes.toString()).toBe("x");
  });
});

describe("invalid arguments", () => {
  it.each([
    [-1, 1],
    [0.5, 1],
    [Number.NaN, 1],
    [0, 0],
    [0, Number.NaN],
  ])("reading from %d, %d bytes, is refused", async (offset, maxBytes) => {
    await expect(journal.read("s", "e", offset, maxBytes)).rejects.toMatchObject({
      code: "INVALID_REQUEST",
    });
  });

  it("a second writer of the same command is refused until the first is closed", async () => {
    const [first, second] = await Promise.allSettled([
      journal.write("s", "e"),
      journal.write("s", "e"),
    ]);
    expect(second).toMatchObject({ status: "rejected", reason: { code: "CONFLICT" } });
    if (first.status === "fulfilled") await first.value.close();
    await (await journal.write("s", "e")).close();
  });

  it("a closed writer refuses output, and closing it again does nothing", async () => {
    const writer = await journal.write("s", "e");
    await writer.append("stdout", text("x"), 0);
    await writer.close();
    await writer.close();
    await expect(writer.append("stdout", text("y"), 0)).rejects.toMatchObject({ code: "CONFLICT" });
    await expect(writer.skip(1)).rejects.toMatchObject({ code: "CONFLICT" });
    expect(writer.endOffset).toBe(1);
  });

  it("a time that is not a number, and a negative gap, are refused", async () => {
    const writer = await journal.write("s", "e");
    const refused = { code: "INVALID_REQUEST" };
    await expect(writer.append("stdout", text("x"), Number.NaN)).rejects.toMatchObject(refused);
    await expect(writer.skip(-1)).rejects.toMatchObject(refused);
    expect(writer.endOffset).toBe(0);
    await writer.close();
  });
});

function bytesOf(chunks: readonly JournalChunk[], stream: OutputStream): number {
  return chunks.reduce((sum, chunk) => sum + (chunk.stream === stream ? chunk.bytes.length : 0), 0);
}

/** Each chunk starts where the previous one ended, and numbers never decrease. */
function isInOrder(chunks: readonly JournalChunk[], start = 0): boolean {
  let offset = start;
  let seq = -1;
  return chunks.every((chunk) => {
    const isNext = chunk.offset === offset && chunk.seq >= seq;
    offset += chunk.bytes.length;
    seq = chunk.seq;
    return isNext;
  });
}
