import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { readEvents, type SseEvent, SseParser } from "./sse-parser.ts";

const encoder = new TextEncoder();

/** Feeds text in chunks that end after the given numbers of bytes. */
function parse(text: string, cuts: readonly number[] = []): SseEvent[] {
  const bytes = encoder.encode(text);
  const parser = new SseParser();
  const ends = [...cuts.filter((cut) => cut < bytes.length), bytes.length].toSorted(
    (a, b) => a - b,
  );
  return ends.flatMap((end, index) => parser.push(bytes.subarray(ends[index - 1] ?? 0, end)));
}

describe("SseParser", () => {
  test("parses name, data and id, and removes one space", () => {
    expect(parse("event: chunk\nid: 7\ndata:  a\n\n")).toEqual([
      { type: "chunk", data: " a", id: "7" },
    ]);
  });

  test("joins several lines of data", () => {
    expect(parse("data: a\ndata\ndata:b\n\n")).toEqual([
      { type: "message", data: "a\n\nb", id: "" },
    ]);
  });

  test("skips comments, unknown fields and events without data", () => {
    expect(parse(": ping\n\nevent: x\n\nretry: 5\nother: y\ndata: z\n\n")).toEqual([
      { type: "message", data: "z", id: "" },
    ]);
  });

  test("keeps an id until the next one, and ignores one with a NUL", () => {
    const text = "id: 1\ndata: a\n\ndata: b\n\nid: 2\0\ndata: c\n\nid\ndata: d\n\n";
    expect(parse(text).map(({ id }) => id)).toEqual(["1", "1", "1", ""]);
  });

  test("removes a byte order mark only at the beginning", () => {
    expect(parse("\uFEFFdata: a\n\ndata: \uFEFFb\n\n").map(({ data }) => data)).toEqual([
      "a",
      "\uFEFFb",
    ]);
  });

  test("does not treat a CR and an LF in two pieces as two line ends", () => {
    expect(parse("data: a\r\ndata: b\r\n\r\n", [8, 17, 19])).toEqual([
      { type: "message", data: "a\nb", id: "" },
    ]);
  });

  test("delivers an event as soon as the CR that ends it arrives", () => {
    const parser = new SseParser();
    expect(parser.push(encoder.encode("data: a\r\r"))).toHaveLength(1);
    expect(parser.push(encoder.encode("\ndata: b\r\n\r\n"))).toEqual([
      { type: "message", data: "b", id: "" },
    ]);
  });

  test("an event without an empty line after it is dropped", () => {
    expect(parse("data: a\n")).toEqual([]);
  });

  const word = fc.string({ unit: "grapheme" }).map((text) => text.replaceAll(/[\r\n\0]/g, ""));
  const lineEnd = fc.constantFrom("\n", "\r", "\r\n");
  const written = fc.record({
    type: word.filter((text) => text !== ""),
    lines: fc.array(word, { minLength: 1, maxLength: 4 }),
    comment: fc.option(word, { nil: undefined }),
  });

  test("the events are the same for all line ends and splits", () => {
    fc.assert(
      fc.property(
        fc.array(written),
        fc.infiniteStream(lineEnd),
        fc.boolean(),
        fc.array(fc.nat({ max: 400 })),
        (all, lineEnds, mark, cuts) => {
          let text = mark ? "\uFEFF" : "";
          // A CR before an LF would be one line ending where two are meant.
          const line = (content: string): void => {
            const end = lineEnds.next().value!;
            text += content + (content === "" && text.endsWith("\r") && end === "\n" ? "\r" : end);
          };
          for (const { type, lines, comment } of all) {
            if (comment !== undefined) line(`:${comment}`);
            line(`event: ${type}`);
            for (const data of lines) line(`data: ${data}`);
            line("");
          }
          const expected = all.map(({ type, lines }) => ({ type, data: lines.join("\n"), id: "" }));
          expect(parse(text, cuts)).toEqual(expected);
        },
      ),
    );
  });

  test("invalid bytes do no harm", () => {
    fc.assert(
      fc.property(fc.array(fc.uint8Array({ maxLength: 64 })), (pieces) => {
        const parser = new SseParser();
        for (const { type, data } of pieces.flatMap((piece) => parser.push(piece))) {
          expect(`${type}${data}`).not.toMatch(/\r/);
        }
      }),
    );
  });
});

describe("readEvents()", () => {
  test("closes a connection without data for a long time", async () => {
    const cancelled = Promise.withResolvers<void>();
    const silent = new ReadableStream<Uint8Array>({
      start: (controller) => controller.enqueue(encoder.encode("data: a\n\n")),
      cancel: () => cancelled.resolve(),
    });
    const events = readEvents(silent, 10);
    expect((await events.next()).value).toMatchObject({ data: "a" });
    await expect(events.next()).rejects.toThrow("no data for 10 ms");
    await cancelled.promise;
  });

  test("closes the connection when the loop is left", async () => {
    const cancelled = Promise.withResolvers<void>();
    const endless = new ReadableStream<Uint8Array>({
      pull: (controller) => controller.enqueue(encoder.encode("data: a\n\n")),
      cancel: () => cancelled.resolve(),
    });
    for await (const { data } of readEvents(endless)) {
      expect(data).toBe("a");
      break;
    }
    await cancelled.promise;
  });
});
