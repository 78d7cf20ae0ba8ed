import { execFile } from "node:child_process";
import { once } from "node:events";
import { copyFile, mkdir, readFile, stat, truncate, writeFile } from "node:fs/promises";
import { basename } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import {
  JournalFixture,
  KIB,
  patternAt,
  readAll,
  RECORD_ROOM as ROOM,
} from "./testing/journal-fixture.ts";

let fixture: JournalFixture;

beforeEach(async () => (fixture = await JournalFixture.create()));

afterEach(async () => await fixture[Symbol.asyncDispose]());

const HEADERS = 56 + 24;

describe("a writer that was killed in the middle of a record", () => {
  it("is followed by one that continues after the last complete record, wherever it was torn", async () => {
    const journal = await fixture.open();
    const first = await journal.write("s", "original");
    await first.append("stdout", patternAt(0, 30), 0);
    await first.append("stderr", patternAt(30, 20), 0);
    await first.close();
    const [segment] = await fixture.segments("s", "original");
    const { size } = await stat(segment!);
    const lastRecord = 24 + 20;
    for (let kept = 0; kept <= lastRecord; kept += 1) {
      const sessionId = `torn-${kept}`;
      await mkdir(fixture.path(sessionId, "e"), { recursive: true });
      const copy = fixture.path(sessionId, "e", basename(segment!));
      await copyFile(segment!, copy);
      await truncate(copy, size - lastRecord + kept);
      const end = kept === lastRecord ? 50 : 30;
      expect((await readAll(await fixture.open(), sessionId, "e")).bytes).toEqual(
        patternAt(0, end),
      );
      await continueAt(sessionId, { end, stderrBytes: end - 30 });
      expect((await stat(copy)).size).toBe(
        size - lastRecord + (end - 30 === 0 ? 0 : lastRecord) + 24 + 40,
      );
    }
    expect(fixture.warnings).toEqual([]);
  });

  it("is also followed by one if the record was the first of its segment", async () => {
    const journal = await fixture.open();
    const first = await journal.write("s", "original");
    await first.append("stdout", patternAt(0, ROOM), 0);
    await first.append("stdout", patternAt(ROOM, 20), 0);
    await first.close();
    const [full, torn] = await fixture.segments("s", "original");
    const content = await readFile(torn!);
    expect(content.length).toBe(HEADERS + 20);
    for (let kept = 0; kept < content.length; kept += 1) {
      const sessionId = `torn-${kept}`;
      await mkdir(fixture.path(sessionId, "e"), { recursive: true });
      await copyFile(full!, fixture.path(sessionId, "e", basename(full!)));
      await writeFile(fixture.path(sessionId, "e", basename(torn!)), content.subarray(0, kept));
      const read = await readAll(await fixture.open(), sessionId, "e");
      expect(read.bytes.equals(patternAt(0, ROOM))).toBe(true);
      await continueAt(sessionId, { end: ROOM, stderrBytes: 0 });
    }
    expect(fixture.warnings).toEqual([]);
  });

  it("is followed by one that starts from nothing if nothing was complete", async () => {
    const journal = await fixture.open();
    const first = await journal.write("s", "original");
    await first.append("stdout", patternAt(0, 20), 0);
    await first.close();
    const [segment] = await fixture.segments("s", "original");
    const content = await readFile(segment!);
    for (let kept = 0; kept < HEADERS; kept += 1) {
      const sessionId = `torn-${kept}`;
      await mkdir(fixture.path(sessionId, "e"), { recursive: true });
      await writeFile(fixture.path(sessionId, "e", basename(segment!)), content.subarray(0, kept));
      expect((await readAll(await fixture.open(), sessionId, "e")).bytes.length).toBe(0);
      await continueAt(sessionId, { end: 0, stderrBytes: 0 });
    }
    expect(fixture.warnings).toEqual([]);
  });
});

/** Opens the output like a new process, finds its end, and appends 40 bytes. */
async function continueAt(
  sessionId: string,
  expected: { readonly end: number; readonly stderrBytes: number },
): Promise<void> {
  const { end, stderrBytes } = expected;
  const journal = await fixture.open();
  const writer = await journal.write(sessionId, "e");
  expect([writer.endOffset, writer.stderrBytes, writer.stdoutBytes, writer.droppedBytes]).toEqual([
    end,
    stderrBytes,
    end - stderrBytes,
    0,
  ]);
  await writer.append("stderr", patternAt(end, 40), 0);
  await writer.close();
  const { bytes, chunks } = await readAll(journal, sessionId, "e", { maxBytes: 128 * KIB });
  expect(bytes.equals(patternAt(0, end + 40))).toBe(true);
  expect(chunks.map(({ seq }) => seq)).toEqual(chunks.map((_, index) => index));
}

it.each([30, 50_000])(
  "no byte of a resolved append is lost by a kill -9 (%d bytes each)",
  async (chunkBytes) => {
    const program = fileURLToPath(new URL("testing/append-without-end.ts", import.meta.url));
    const child = execFile(process.execPath, [program, fixture.directory, String(chunkBytes)]);
    const ended = once(child, "exit");
    let resolved = 0;
    for await (const line of createInterface({ input: child.stdout! })) {
      resolved = Number(line);
      if (resolved >= 20 * chunkBytes) child.kill("SIGKILL");
    }
    expect(await ended).toEqual([null, "SIGKILL"]);
    const journal = await fixture.open();
    const writer = await journal.write("session", "command");
    expect(writer.endOffset).toBeGreaterThanOrEqual(resolved);
    const { chunks, skippedBytes, nextOffset } = await readAll(journal, "session", "command");
    expect(nextOffset).toBe(writer.endOffset);
    expect(skippedBytes).toBe(writer.droppedBytes);
    for (const { offset, bytes } of chunks) {
      expect(patternAt(offset, bytes.length).equals(bytes)).toBe(true);
    }
    await writer.close();
    expect(fixture.warnings).toEqual([]);
  },
);
