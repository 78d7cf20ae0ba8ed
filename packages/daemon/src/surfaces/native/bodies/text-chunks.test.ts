import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { JournalChunk } from "../../../ports/exec-journal.ts";
import { TextChunks, unfinishedTail } from "./text-chunks.ts";

/** Pieces of two streams as a command writes them, one after the other. */
function journal(pieces: readonly (readonly ["stdout" | "stderr", Uint8Array])[]): JournalChunk[] {
  let offset = 0;
  return pieces.map(([stream, bytes], seq) => {
    const chunk = { stream, bytes, seq, offset, timestampMs: seq };
    offset += bytes.byteLength;
    return chunk;
  });
}

function textOf(chunks: readonly JournalChunk[]): { stdout: string; stderr: string } {
  const decoder = new TextChunks({ raw: false });
  const text = { stdout: "", stderr: "" };
  const bodies = chunks.flatMap((chunk) => decoder.add(chunk) ?? []);
  for (const { body } of [...bodies, ...decoder.flush()]) text[body.stream] += body.chunk;
  return text;
}

const piece = fc.tuple(
  fc.constantFrom("stdout" as const, "stderr" as const),
  fc.uint8Array({ minLength: 1, maxLength: 6 }),
);

describe("chunks of text", () => {
  it("contain the text of each stream, wherever it was split", () => {
    fc.assert(
      fc.property(
        fc.string({ unit: "binary" }),
        fc.string({ unit: "binary" }),
        fc.array(fc.nat(7)),
        (out, err, cuts) => {
          const streams = {
            stdout: Buffer.from(out.toWellFormed()),
            stderr: Buffer.from(err.toWellFormed()),
          };
          const pieces: ["stdout" | "stderr", Uint8Array][] = [];
          const left = { ...streams };
          for (const [index, cut] of [...cuts, 1e6, 1e6].entries()) {
            const stream = index % 2 === 0 ? "stdout" : "stderr";
            const bytes = left[stream].subarray(0, cut);
            left[stream] = left[stream].subarray(bytes.length);
            if (bytes.length > 0) pieces.push([stream, bytes]);
          }
          expect(textOf(journal(pieces))).toEqual({
            stdout: streams.stdout.toString(),
            stderr: streams.stderr.toString(),
          });
        },
      ),
    );
  });

  it("equal the text decoded at once, even if the bytes are not text", () => {
    fc.assert(
      fc.property(fc.array(piece), (pieces) => {
        const all = (stream: string): string =>
          Buffer.concat(
            pieces.filter(([name]) => name === stream).map(([, bytes]) => bytes),
          ).toString();
        expect(textOf(journal(pieces))).toEqual({ stdout: all("stdout"), stderr: all("stderr") });
      }),
    );
  });

  it("have cursors after which nothing is missing", () => {
    fc.assert(
      fc.property(fc.array(piece), fc.nat(), (pieces, at) => {
        const chunks = journal(pieces);
        const decoder = new TextChunks({ raw: false });
        const sent = chunks.flatMap((chunk) => decoder.add(chunk) ?? []);
        const last = sent[at % Math.max(1, sent.length)];
        if (last === undefined) return;
        // Everything that was held back when this chunk was sent comes after its cursor.
        const later = sent.slice(sent.indexOf(last) + 1);
        for (const { body } of [...later, ...decoder.flush()])
          expect(body.offset).toBeGreaterThanOrEqual(last.cursor);
      }),
    );
  });

  it("include the exact bytes if the text does not represent them", () => {
    fc.assert(
      fc.property(fc.array(piece), (pieces) => {
        const decoder = new TextChunks({ raw: true });
        const sent = journal(pieces).flatMap((chunk) => decoder.add(chunk) ?? []);
        const bytes = sent.map(({ body: { chunk, chunk_base64 } }) =>
          chunk_base64 === undefined ? Buffer.from(chunk) : Buffer.from(chunk_base64, "base64"),
        );
        expect(Buffer.concat(bytes)).toEqual(Buffer.concat(pieces.map(([, own]) => own)));
      }),
    );
  });

  it("wait only for bytes that can still become a character", () => {
    expect(
      [[0xc3], [0xe2, 0x82], [0xf0, 0x9f, 0x98]].map((bytes) => unfinishedTail(Buffer.from(bytes))),
    ).toEqual([1, 2, 3]);
    for (const bytes of [
      [],
      [0x61],
      [0xc3, 0xa4],
      [0xff],
      [0xc0],
      [0xf5],
      [0x80, 0x80, 0x80, 0x80],
    ])
      expect(unfinishedTail(Buffer.from(bytes))).toBe(0);
  });
});
