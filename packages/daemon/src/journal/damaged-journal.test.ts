import { mkdir, readFile, rename, rm, symlink, writeFile } from "node:fs/promises";
import { array, assert, asyncProperty, integer, nat, tuple, uint8Array } from "fast-check";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import {
  JournalFixture,
  KIB,
  MIB,
  patternAt,
  readAll,
  RECORD_ROOM as ROOM,
} from "./testing/journal-fixture.ts";

let fixture: JournalFixture;

beforeEach(async () => (fixture = await JournalFixture.create()));

afterEach(async () => await fixture[Symbol.asyncDispose]());

/** Three segments, each with a record of 1000 bytes and one that fills it. */
async function writeThreeSegments(execId = "e"): Promise<readonly string[]> {
  const writer = await (await fixture.open()).write("s", execId);
  for (let index = 0; index < 3; index += 1) {
    await writer.append("stdout", patternAt(writer.endOffset, 1000), 0);
    await writer.append("stdout", patternAt(writer.endOffset, SECOND), 0);
  }
  await writer.close();
  return await fixture.segments("s", execId);
}

const SECOND = ROOM - 1000 - 24;
const IN_SEGMENT = 1000 + SECOND;
/** Where the second record of a segment starts. */
const AT = 56 + 24 + 1000;

type Damage = readonly [what: string, damage: (content: Buffer) => unknown];

const badHeaders: readonly Damage[] = [
  ["another magic", (content) => content.writeUInt32LE(0x1234_5678, 0)],
  ["another checksum", (content) => content.writeUInt32LE(2, 4)],
  ["the version of a form that never was", asFirstVersion(2)],
  ["another first offset than its name says", (content) => content.writeUInt32LE(77, 8)],
  ["an impossible first offset", (content) => content.writeUInt32LE(0xffff_ffff, 12)],
  ["counts that do not add up", (content) => content.writeUInt32LE(77, 24)],
  ["an impossible sequence number", (content) => content.writeUInt32LE(0xffff_ffff, 20)],
  ["nothing but zeros", (content) => content.fill(0)],
];

const badRecords: readonly Damage[] = [
  ["no stream", (content) => content.writeUInt8(0x80, AT)],
  ["an unknown stream", (content) => content.writeUInt8(0x83, AT)],
  ["no mark", (content) => content.writeUInt8(0, AT + 1)],
  ["the form of the first version", (content) => content.writeUInt8(1, AT)],
  ["no length", (content) => content.writeUInt32LE(0, AT + 8)],
  ["a length of 4 GiB", (content) => content.writeUInt32LE(0xffff_ffff, AT + 8)],
  ["another sequence number", (content) => content.writeUInt32LE(99, AT + 2)],
  ["a time that is none", (content) => content.writeDoubleLE(Number.NaN, AT + 12)],
  ["zeros instead of the rest", (content) => content.fill(0, AT)],
];

/** Damage that leaves a record's place and length plausible. */
const badBytes: readonly Damage[] = [
  ["another first byte", (content) => (content[AT + 24] = 0xff ^ content[AT + 24]!)],
  ["another byte in the middle", (content) => (content[AT + 999] = 0xff ^ content[AT + 999]!)],
  ["the other stream", (content) => content.writeUInt8(0x82, AT)],
  ["another time", (content) => content.writeDoubleLE(5, AT + 12)],
  ["another checksum", (content) => content.writeUInt32LE(5, AT + 20)],
];

function asFirstVersion(version: number): Damage[1] {
  return (content) => {
    content.writeUInt32LE(0x4a_4b_53_01, 0);
    content.writeUInt32LE(version, 4);
  };
}

async function damageFile(path: string, damage: Damage[1]): Promise<void> {
  const content = await readFile(path);
  damage(content);
  await writeFile(path, content);
}

describe("a damaged segment in the middle", () => {
  it.each(badHeaders)("is skipped if its header has %s", async (_, damage) => {
    const [, middle] = await writeThreeSegments();
    await damageFile(middle!, damage);
    const { bytes, skippedBytes } = await readAll(await fixture.open(), "s", "e");
    expect(skippedBytes).toBe(IN_SEGMENT);
    expect(bytes.equals(patternsOf([0, IN_SEGMENT], [2 * IN_SEGMENT, IN_SEGMENT]))).toBe(true);
    expect(fixture.warnings).toHaveLength(1);
  });

  it.each([
    ...badRecords,
    [
      "a length beyond the file",
      (content: Buffer) => content.writeUInt32LE(15 * 1024 * KIB, AT + 8),
    ] as const,
  ])("is skipped from the record that has %s", async (_, damage) => {
    const [, middle] = await writeThreeSegments();
    await damageFile(middle!, damage);
    const { bytes, skippedBytes } = await readAll(await fixture.open(), "s", "e");
    expect(skippedBytes).toBe(SECOND);
    const kept = patternsOf([0, IN_SEGMENT + 1000], [2 * IN_SEGMENT, IN_SEGMENT]);
    expect(bytes.equals(kept)).toBe(true);
    expect(fixture.warnings).toMatchObject([{ fields: { path: middle, position: AT } }]);
  });
});

describe("a record that is lost among others", () => {
  const RECORD = 100;
  const RECORDS = 20;
  const LENGTH = RECORD * RECORDS;
  /** Where the header of the fifth record begins. */
  const FIFTH = 56 + 4 * (24 + RECORD);

  async function writeRecords(execId: string): Promise<string> {
    const writer = await (await fixture.open()).write("s", execId);
    for (let index = 0; index < RECORDS; index += 1) {
      const stream = index % 2 === 0 ? "stdout" : "stderr";
      await writer.append(stream, patternAt(writer.endOffset, RECORD), 0);
    }
    await writer.close();
    const [path] = await fixture.segments("s", execId);
    return path!;
  }

  it.each(Array.from({ length: 24 }, (_, byte) => byte))(
    "because byte %d of its header is another one, is the only one lost",
    async (byte) => {
      for (const flip of [0x01, 0x80, 0xff]) {
        const execId = `e-${flip}`;
        const path = await writeRecords(execId);
        await damageFile(
          path,
          (content) => (content[FIFTH + byte] = content[FIFTH + byte]! ^ flip),
        );
        const kept = patternsOf([0, 4 * RECORD], [5 * RECORD, LENGTH - 5 * RECORD]);
        for (const maxBytes of [70, 100_000]) {
          const read = await readAll(await fixture.open(), "s", execId, { maxBytes });
          expect(read.bytes.equals(kept)).toBe(true);
          expect([read.skippedBytes, read.nextOffset]).toEqual([RECORD, LENGTH]);
          for (const chunk of read.chunks)
            expect(patternAt(chunk.offset, chunk.bytes.length).equals(chunk.bytes)).toBe(true);
        }
        const journal = await fixture.open();
        const writer = await journal.write("s", execId);
        expect([writer.endOffset, writer.droppedBytes]).toEqual([LENGTH, RECORD]);
        await writer.append("stdout", patternAt(LENGTH, ROOM), 0);
        await writer.close();
        const all = await readAll(await fixture.open(), "s", execId);
        const more = patternAt(LENGTH, ROOM);
        expect(all.bytes.equals(Buffer.concat([kept, more]))).toBe(true);
        expect(all.skippedBytes).toBe(RECORD);
      }
    },
  );

  it("is searched for within limits, however much its output looks like records", async () => {
    const writer = await (await fixture.open({ maxBytesPerExec: 128 * MIB })).write("s", "e");
    const output = Buffer.alloc(4 * MIB);
    const length = 2 * MIB;
    for (let at = 0; at < length; at += 64) {
      output.writeUInt8(0x81, at);
      output.writeUInt8(0xc2, at + 1);
      output.writeUIntLE(1, at + 2, 6);
      output.writeUInt32LE(length, at + 8);
    }
    await writer.append("stdout", output, 0);
    await writer.append("stdout", patternAt(0, 100), 0);
    await writer.close();
    const [path] = await fixture.segments("s", "e");
    await damageFile(path!, (content) => content.writeUInt8(0, 56));
    const { bytes } = await readAll(await fixture.open(), "s", "e");
    expect(bytes.length).toBe(0);
  });

  it("takes the damaged ones beside it with it, and no other", async () => {
    const path = await writeRecords("e");
    await damageFile(path, (content) => content.fill(0x81, FIFTH, FIFTH + 3 * (24 + RECORD)));
    const { bytes, skippedBytes } = await readAll(await fixture.open(), "s", "e");
    expect(skippedBytes).toBe(3 * RECORD);
    const kept = patternsOf([0, 4 * RECORD], [7 * RECORD, LENGTH - 7 * RECORD]);
    expect(bytes.equals(kept)).toBe(true);
  });
});

describe("a record that is not as it was written", () => {
  it.each(badBytes)("because of %s is a gap, and what follows it is whole", async (_, damage) => {
    const files = await writeThreeSegments();
    for (const path of files) await damageFile(path, damage);
    const journal = await fixture.open();
    // A page may begin before the record, in it, and behind it.
    for (const offset of [0, 1000, 1500, IN_SEGMENT]) {
      const output = await readAll(journal, "s", "e", { offset, maxBytes: 700 });
      for (const { offset: at, bytes } of output.chunks)
        expect(patternAt(at, bytes.length).equals(bytes)).toBe(true);
      expect(output.nextOffset).toBe(3 * IN_SEGMENT);
      expect(output.bytes.length + output.skippedBytes).toBe(3 * IN_SEGMENT - offset);
      expect(output.skippedBytes).toBeGreaterThanOrEqual(2 * SECOND);
    }
    expect(fixture.warnings).toHaveLength(3);
    const writer = await journal.write("s", "e");
    expect(writer.endOffset).toBe(3 * IN_SEGMENT);
    await writer.close();
  });

  it("is read as before if it was written without a checksum", async () => {
    const bytes = patternAt(0, 100);
    const header = Buffer.alloc(56 + 24);
    header.writeUInt32LE(0x4a_4b_53_01, 0);
    header.writeUInt32LE(1, 4);
    header.writeUInt32LE(2, 56);
    header.writeUInt32LE(bytes.length, 60);
    header.writeDoubleLE(77, 72);
    await mkdir(fixture.path("s", "old"), { recursive: true });
    const path = fixture.path("s", "old", `${"0".repeat(16)}.seg`);
    await writeFile(path, Buffer.concat([header, bytes]));
    const journal = await fixture.open();
    const writer = await journal.write("s", "old");
    expect([writer.endOffset, writer.stderrBytes]).toEqual([100, 100]);
    await writer.append("stdout", patternAt(100, 50), 78);
    await writer.close();
    const { bytes: all, chunks } = await readAll(await fixture.open(), "s", "old");
    expect(all.equals(patternAt(0, 150))).toBe(true);
    expect(chunks.map(({ stream, seq, timestampMs }) => [stream, seq, timestampMs])).toEqual([
      ["stderr", 0, 77],
      ["stdout", 1, 78],
    ]);
  });
});

describe("a damaged segment at the end", () => {
  it.each(badRecords)("ends the output where a record has %s", async (_, damage) => {
    const [, , last] = await writeThreeSegments();
    await damageFile(last!, damage);
    const journal = await fixture.open();
    const end = 2 * IN_SEGMENT + 1000;
    for (let attempt = 0; attempt < 2; attempt += 1) {
      const { bytes, nextOffset } = await readAll(journal, "s", "e");
      expect([bytes.length, nextOffset]).toEqual([end, end]);
    }
    expect(fixture.warnings).toHaveLength(1);
    const writer = await journal.write("s", "e");
    expect([writer.endOffset, fixture.warnings.length]).toEqual([end, 2]);
    await writer.append("stdout", patternAt(end, 10), 0);
    expect((await readAll(journal, "s", "e")).bytes.equals(patternAt(0, end + 10))).toBe(true);
    await writer.close();
  });

  it.each(badHeaders)("is removed by the next writer if its header has %s", async (_, damage) => {
    const [, , last] = await writeThreeSegments();
    await damageFile(last!, damage);
    const journal = await fixture.open();
    expect((await readAll(journal, "s", "e")).bytes.length).toBe(2 * IN_SEGMENT);
    const writer = await journal.write("s", "e");
    expect(writer.endOffset).toBe(2 * IN_SEGMENT);
    expect(await fixture.segments("s", "e")).toHaveLength(2);
    await writer.append("stdout", patternAt(writer.endOffset, 10), 0);
    const { bytes } = await readAll(journal, "s", "e");
    expect(bytes.equals(patternAt(0, 2 * IN_SEGMENT + 10))).toBe(true);
    expect(fixture.warnings).toHaveLength(2);
    await writer.close();
  });
});

describe("whatever the files contain", () => {
  it("pages end and a writer opens after random changes", async () => {
    const [first] = await writeThreeSegments();
    const content = (await readFile(first!)).subarray(0, AT + 24 + 100);
    const changes = array(tuple(nat({ max: content.length - 1 }), integer({ min: 0, max: 255 })), {
      minLength: 1,
      maxLength: 8,
    });
    let run = 0;
    await assert(
      asyncProperty(changes, async (bytes) => {
        const changed = Buffer.from(content);
        for (const [at, value] of bytes) changed[at] = value;
        await readAndContinue(`changed-${(run += 1)}`, changed);
      }),
      { numRuns: 60 },
    );
  });

  it("pages end and a writer opens with random content", async () => {
    let run = 0;
    await assert(
      asyncProperty(uint8Array({ maxLength: 300 }), async (bytes) => {
        await readAndContinue(`random-${(run += 1)}`, bytes);
      }),
      { numRuns: 30 },
    );
  });

  async function readAndContinue(execId: string, content: Uint8Array): Promise<void> {
    await mkdir(fixture.path("s", execId), { recursive: true });
    await writeFile(fixture.path("s", execId, `${"0".repeat(16)}.seg`), content);
    const journal = await fixture.open();
    const { bytes, chunks, nextOffset } = await readAll(journal, "s", execId);
    expect(bytes.length).toBeLessThanOrEqual(content.length);
    for (const chunk of chunks)
      expect(patternAt(chunk.offset, chunk.bytes.length).equals(chunk.bytes)).toBe(true);
    const writer = await journal.write("s", execId);
    expect(writer.endOffset).toBe(nextOffset);
    await writer.append("stdout", Buffer.from("more"), 0);
    expect((await readAll(journal, "s", execId)).bytes.subarray(-4).toString()).toBe("more");
    await writer.close();
  }
});

describe("an entry that is not a file of output", () => {
  it("is not followed if it is a link", async () => {
    const [, middle] = await writeThreeSegments();
    await rename(middle!, fixture.path("elsewhere"));
    await symlink(fixture.path("elsewhere"), middle!);
    const journal = await fixture.open();
    await expect(readAll(journal, "s", "e")).rejects.toMatchObject({ code: "INTERNAL_ERROR" });
    await expect(journal.write("s", "e")).rejects.toMatchObject({ code: "INTERNAL_ERROR" });
  });

  it("fails to read if it is a directory, and a retry can succeed", async () => {
    const [, , last] = await writeThreeSegments();
    const content = await readFile(last!);
    await rm(last!);
    await mkdir(last!);
    const journal = await fixture.open();
    await expect(readAll(journal, "s", "e")).rejects.toMatchObject({ code: "INTERNAL_ERROR" });
    await expect(journal.write("s", "e")).rejects.toMatchObject({ code: "INTERNAL_ERROR" });
    await rm(last!, { recursive: true });
    await writeFile(last!, content);
    const writer = await journal.write("s", "e");
    expect(writer.endOffset).toBe(3 * IN_SEGMENT);
    await writer.close();
  });

  it("is ignored if its name is not one of ours", async () => {
    await writeThreeSegments();
    await writeFile(fixture.path("s", "e", "notes.txt"), "hello");
    await writeFile(fixture.path("s", "e", "9".repeat(16) + ".seg"), "");
    await writeFile(fixture.path("not.a.session"), "");
    const journal = await fixture.open();
    expect((await readAll(journal, "s", "e")).bytes.length).toBe(3 * IN_SEGMENT);
    expect(await journal.sessions()).toEqual(["s"]);
  });
});

function patternsOf(...ranges: readonly (readonly [offset: number, length: number])[]): Buffer {
  return Buffer.concat(ranges.map(([offset, length]) => patternAt(offset, length)));
}
