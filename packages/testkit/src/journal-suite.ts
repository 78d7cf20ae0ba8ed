/** The conformance suite of the `ExecJournal` port: every journal passes it. */
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { ExecJournal } from "./ports.ts";

export interface JournalFixture {
  /** Keeps at most 1 MiB of a command, and 4 MiB of a session. */
  readonly journal: ExecJournal;
  /** The same data, as another daemon sees it. */
  readonly reopen: () => Promise<ExecJournal>;
  /** The token with which the sessions `ses_1` and `ses_2` are served. */
  readonly fence: number;
  readonly close: () => Promise<void>;
}

const MIB = 2 ** 20;

export function journalSuite(name: string, makeFixture: () => Promise<JournalFixture>): void {
  describe(`${name} as a journal`, () => {
    let fixture: JournalFixture;
    beforeEach(async () => {
      fixture = await makeFixture();
    });
    afterEach(() => fixture.close());

    const write = (exec = "exe_1", beforeDrop?: (upTo: number) => Promise<void>) =>
      fixture.journal.write("ses_1", exec, beforeDrop, fixture.fence);
    const text = (bytes: Uint8Array): string => Buffer.from(bytes).toString();

    async function readAll(journal = fixture.journal, maxBytes = 7): Promise<string> {
      let all = "";
      for (let offset = 0; ;) {
        const page = await journal.read("ses_1", "exe_1", offset, maxBytes);
        all += page.chunks.map(({ bytes }) => text(bytes)).join("");
        if (page.nextOffset === offset) return all;
        offset = page.nextOffset;
      }
    }

    it("returns what was written, in order, from any cursor, in pages of any size", async () => {
      const writer = await write();
      await writer.append("stdout", Buffer.from("one "), 1);
      await writer.append("stderr", Buffer.from("two "), 2);
      await writer.append("stdout", Buffer.from("three"), 3);
      expect(writer).toMatchObject({ endOffset: 13, stdoutBytes: 9, stderrBytes: 4 });
      const page = await fixture.journal.read("ses_1", "exe_1", 0, 1000);
      expect(page).toMatchObject({ nextOffset: 13, skippedBytes: 0 });
      expect(page.chunks.map(({ stream, offset, bytes }) => [stream, offset, text(bytes)])).toEqual(
        [
          ["stdout", 0, "one "],
          ["stderr", 4, "two "],
          ["stdout", 8, "three"],
        ],
      );
      expect(page.chunks.map(({ timestampMs }) => timestampMs)).toEqual([1, 2, 3]);
      const inside = await fixture.journal.read("ses_1", "exe_1", 5, 4);
      expect(inside.chunks.map(({ bytes }) => text(bytes)).join("")).toBe("wo t");
      for (const size of [1, 3, 100])
        expect(await readAll(fixture.journal, size)).toBe("one two three");
      await writer.close();
    });

    it("is empty for a command without output, and after the end", async () => {
      const nothing = { chunks: [], skippedBytes: 0 };
      expect(await fixture.journal.read("ses_1", "exe_1", 0, 10)).toEqual({
        ...nothing,
        nextOffset: 0,
      });
      const writer = await write();
      await writer.append("stdout", Buffer.from("abc"), 1);
      expect(await fixture.journal.read("ses_1", "exe_1", 3, 10)).toEqual({
        ...nothing,
        nextOffset: 3,
      });
      await writer.close();
    });

    it("skips nothing for a reader during a write", async () => {
      const rounds = 150;
      const writer = await write();
      let isOver = false;
      const writing = (async () => {
        for (let round = 0; round < rounds; round++)
          await writer.append("stdout", Buffer.from(`${round} `), round);
        isOver = true;
      })();
      let all = "";
      for (let offset = 0; ;) {
        const wasOver = isOver;
        const page = await fixture.journal.read("ses_1", "exe_1", offset, 1000);
        expect([offset, page.skippedBytes]).toEqual([offset, 0]);
        all += page.chunks.map(({ bytes }) => text(bytes)).join("");
        if (wasOver && page.nextOffset === offset) break;
        offset = page.nextOffset;
        if (page.chunks.length === 0) await new Promise(setImmediate);
      }
      await writing;
      expect(all).toBe(Array.from({ length: rounds }, (_, round) => `${round} `).join(""));
      await writer.close();
    });

    it("continues after the output of an earlier writer, also in another process", async () => {
      const first = await write();
      await first.append("stdout", Buffer.from("before "), 1);
      await first.skip(5);
      await first.close();
      const journal = await fixture.reopen();
      const second = await journal.write("ses_1", "exe_1", undefined, fixture.fence);
      expect(second).toMatchObject({ endOffset: 12, stdoutBytes: 7, droppedBytes: 5 });
      await second.append("stderr", Buffer.from("after"), 2);
      await second.close();
      expect(await journal.read("ses_1", "exe_1", 7, 100)).toMatchObject({
        skippedBytes: 5,
        nextOffset: 17,
      });
      expect(await readAll(journal)).toBe("before after");
    });

    it("keeps the beginning and the newest of excess output, once readers have caught up", async () => {
      const caughtUp: number[] = [];
      const writer = await write("exe_1", (upTo) => {
        caughtUp.push(upTo);
        return Promise.resolve();
      });
      const piece = Buffer.alloc(64 * 1024);
      for (let at = 0; at < 48; at++) await writer.append("stdout", piece.fill(at), at);
      expect(writer.endOffset).toBe(3 * MIB);
      expect(writer.droppedBytes).toBeGreaterThan(MIB);
      expect(caughtUp.length).toBeGreaterThan(0);
      expect(caughtUp.toSorted((a, b) => a - b)).toEqual(caughtUp);
      const first = await fixture.journal.read("ses_1", "exe_1", 0, 1);
      expect(first).toMatchObject({ skippedBytes: 0, nextOffset: 1 });
      const last = await fixture.journal.read("ses_1", "exe_1", 3 * MIB - 1, 1);
      expect(last.chunks[0]?.bytes[0]).toBe(47);
      expect(await fixture.journal.size("ses_1")).toBeLessThan(2 * MIB);
      await writer.close();
    });

    it("removes all output of one session only", async () => {
      const mine = await write();
      await mine.append("stdout", Buffer.from("mine"), 1);
      await mine.close();
      const other = await fixture.journal.write("ses_2", "exe_1", undefined, fixture.fence);
      await other.append("stdout", Buffer.from("other"), 1);
      await other.close();
      expect([...(await fixture.journal.sessions())].toSorted()).toEqual(["ses_1", "ses_2"]);
      expect(await fixture.journal.size("ses_1")).toBeGreaterThan(0);
      await fixture.journal.remove("ses_1");
      expect(await fixture.journal.sessions()).toEqual(["ses_2"]);
      expect(await fixture.journal.size("ses_1")).toBe(0);
      expect(await readAll()).toBe("");
    });

    it.each([
      [-1, 1],
      [0.5, 1],
      [0, 0],
    ])("refuses the cursor %d with pages of %d", async (offset, size) => {
      await expect(fixture.journal.read("ses_1", "exe_1", offset, size)).rejects.toMatchObject({
        code: "INVALID_REQUEST",
      });
    });
  });
}
