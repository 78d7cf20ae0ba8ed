/** Streams of much output, whose pages and events reuse memory. */
import { once } from "node:events";
import type { Socket } from "node:net";
import { describe, expect, it } from "vitest";
import type { JournalChunk, JournalPage } from "../../../../ports/exec-journal.ts";
import { ALICES_KEY, HttpFixture } from "../../../testing/http-fixture.ts";
import { parseEvents } from "../../../testing/read-events.ts";
import type { ServerEvent } from "../../../testing/read-events.ts";
import { TextChunks } from "../../bodies/text-chunks.ts";

const KIB = 1024;
const LINES = Buffer.from('a "line" \\ with\tescapes\u0001 and words without any\n');
const EURO = Buffer.from("€");

type Piece = readonly ["stdout" | "stderr", Buffer];

/** A page for each list of pieces, contiguous in the output. */
function pagesOf(pieces: readonly (readonly Piece[])[]): JournalPage[] {
  let offset = 0;
  let seq = 0;
  return pieces.map((page) => {
    const chunks = page.map(([stream, bytes]): JournalChunk => {
      const chunk = { stream, seq: seq++, offset, timestampMs: 7.5, bytes };
      offset += bytes.length;
      return chunk;
    });
    return { chunks, nextOffset: offset, skippedBytes: 0 };
  });
}

/** All pages in the same memory, which is overwritten once the next one is requested. */
async function* inOneBlock(pages: readonly JournalPage[]): AsyncGenerator<JournalPage> {
  const block = Buffer.alloc(256 * KIB);
  for (const page of pages) {
    let end = 0;
    const chunks = page.chunks.map((chunk) => {
      const start = end;
      end += Buffer.from(chunk.bytes).copy(block, start);
      return { ...chunk, bytes: block.subarray(start, end) };
    });
    yield await Promise.resolve({ ...page, chunks });
    block.fill("!");
  }
}

/** What a stream sends of these pages if each has separate memory. */
function eventsOf(pages: readonly JournalPage[], raw = false): ServerEvent[] {
  const text = new TextChunks({ raw });
  const added = pages.flatMap(({ chunks }) => chunks.flatMap((chunk) => text.add(chunk) ?? []));
  return [...added, ...text.flush()].map(({ body, cursor }) => ({
    event: "chunk",
    id: String(cursor),
    data: JSON.parse(JSON.stringify(body)) as unknown,
  }));
}

function numbered(count: number, bytes: number): JournalPage[] {
  return pagesOf(
    Array.from({ length: count }, (_, index) => [
      ["stdout", Buffer.alloc(bytes, `page ${index}\n`)] as const,
    ]),
  );
}

interface Chunk {
  readonly seq: number;
  readonly stream: string;
  readonly chunk: string;
  readonly chunk_base64?: string;
}

/** The pieces of each chunk as one event, with its text and its bytes. */
function joined(events: readonly ServerEvent[]): object[] {
  const whole: { id: string | undefined; head: object; text: string; bytes: string }[] = [];
  let before: Chunk | undefined;
  for (const { id, data } of events) {
    const { chunk: text, chunk_base64: raw, ...head } = data as Chunk;
    const bytes = (raw === undefined ? Buffer.from(text) : Buffer.from(raw, "base64")).toString(
      "hex",
    );
    const last = whole.at(-1);
    if (last !== undefined && before?.seq === head.seq && before.stream === head.stream)
      Object.assign(last, { id, text: last.text + text, bytes: last.bytes + bytes });
    else whole.push({ id, head, text, bytes });
    before = data as Chunk;
  }
  return whole;
}

async function serving(follow: () => AsyncIterable<JournalPage>): Promise<HttpFixture> {
  return await HttpFixture.start({ replace: { exec: { follow } } });
}

async function streamOf(own: HttpFixture, body: object = {}): Promise<ServerEvent[]> {
  const session = await own.createSession();
  const path = `/v1/sessions/${session}/exec/stream`;
  return parseEvents((await own.call(path, { body: { cmd: "true", ...body } })).text);
}

/** Requests a stream on a connection that reads nothing yet. */
async function ask(own: HttpFixture): Promise<Socket> {
  const session = await own.createSession();
  const socket = await own.connect();
  socket.pause();
  const body = JSON.stringify({ cmd: "true" });
  socket.write(
    `POST /v1/sessions/${session}/exec/stream HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${ALICES_KEY}\r\nContent-Length: ${body.length}\r\nConnection: close\r\n\r\n${body}`,
  );
  return socket;
}

/** The events of a response as they arrive on the connection. */
async function eventsFrom(socket: Socket): Promise<ServerEvent[]> {
  const pieces: Buffer[] = [];
  socket.on("data", (piece: Buffer) => pieces.push(piece));
  await once(socket.resume(), "end");
  const whole = Buffer.concat(pieces);
  const writes: Buffer[] = [];
  for (let at = whole.indexOf("\r\n\r\n") + 4; ;) {
    const begin = whole.indexOf("\r\n", at) + 2;
    const length = Number.parseInt(whole.toString("latin1", at, begin - 2), 16);
    if (length === 0) return parseEvents(Buffer.concat(writes).toString());
    writes.push(whole.subarray(begin, begin + length));
    at = begin + length + 2;
  }
}

describe("a stream of much output", () => {
  const plain = Buffer.alloc(40 * KIB, LINES);
  const page = (...pieces: readonly Buffer[]): Piece[] => pieces.map((bytes) => ["stdout", bytes]);
  const floods: Record<string, Piece[][]> = {
    "plain text": [page(plain, plain, plain), page(plain)],
    "characters cut in two between pages": [
      page(Buffer.concat([plain, EURO.subarray(0, 1)])),
      page(Buffer.concat([EURO.subarray(1, 2)])),
      page(Buffer.concat([EURO.subarray(2), plain]), plain),
      page(plain, EURO.subarray(0, 2)),
    ],
    "characters cut in two in both streams": [
      [
        ["stdout", Buffer.concat([plain, EURO.subarray(0, 2)])],
        ["stderr", Buffer.concat([plain, EURO.subarray(0, 1)])],
      ],
      [
        ["stderr", Buffer.concat([EURO.subarray(1), plain])],
        ["stdout", Buffer.concat([EURO.subarray(2), plain])],
        ["stderr", plain],
      ],
    ],
    "binary output between text": [
      page(plain, Buffer.alloc(40 * KIB, Buffer.from([0, 0xff, 0x80, 0xe2, 0x0a])), plain),
      page(Buffer.alloc(128 * KIB, 0x9f)),
      page(plain),
    ],
    "more escapes than there is room for": [page(plain, Buffer.alloc(90 * KIB, 1), plain)],
    "long and short pieces": [page(plain, Buffer.from("x"), plain, Buffer.from("é"), plain)],
  };

  it.each(Object.keys(floods))(
    "has the same events as a stream of little output: %s",
    async (name) => {
      const pages = pagesOf(floods[name] ?? []);
      await using own = await serving(() => inOneBlock(pages));
      for (const raw of [false, true]) {
        const events = await streamOf(own, { raw_output: raw });
        expect(events.at(-1)?.event).toBe("done");
        expect(joined(events.slice(0, -1))).toEqual(joined(eventsOf(pages, raw)));
      }
    },
  );

  it.each([
    ["letters", "abc"],
    ["quotes", '"'],
    ["control characters", "\u0001"],
    ["characters of three bytes", "\u2028"],
    ["no text", Buffer.from([0, 0xff])],
  ])("has no line that is too long for common readers: %s", async (_name, fill) => {
    const pages = pagesOf([
      page(Buffer.alloc(128 * KIB, fill)),
      page(Buffer.alloc(20 * KIB, fill)),
    ]);
    await using own = await serving(() => inOneBlock(pages));
    const session = await own.createSession();
    for (const raw of [false, true]) {
      const body = { cmd: "true", raw_output: raw };
      const { text } = await own.call(`/v1/sessions/${session}/exec/stream`, { body });
      const lines = text.split("\n").map((line) => Buffer.byteLength(line));
      expect(Math.max(...lines)).toBeLessThan(64 * KIB);
      expect(joined(parseEvents(text).slice(0, -1))).toEqual(joined(eventsOf(pages, raw)));
    }
  });

  it("is complete for a client that reads long after it was written", async () => {
    const pages = numbered(100, 128 * KIB);
    const requested: number[] = [];
    await using own = await serving(async function* () {
      for await (const one of inOneBlock(pages)) {
        requested.push(one.nextOffset);
        yield one;
      }
    });
    const socket = await ask(own);
    await untilStill(() => requested.length);
    // Otherwise, nothing waited in the daemon, and the test proves nothing.
    expect(requested.length).toBeLessThan(pages.length);
    const events = await eventsFrom(socket);
    expect(joined(events.slice(0, -1))).toEqual(joined(eventsOf(pages)));
  });

  it("ends with a client that leaves in the middle of a write", async () => {
    const pages = numbered(100, 128 * KIB);
    const ended = Promise.withResolvers<void>();
    let requested = 0;
    await using own = await serving(async function* () {
      try {
        for await (const one of inOneBlock(pages)) {
          requested++;
          yield one;
        }
      } finally {
        ended.resolve();
      }
    });
    const socket = await ask(own);
    await untilStill(() => requested);
    const before = requested;
    expect(before).toBeLessThan(pages.length);
    socket.resetAndDestroy();
    await ended.promise;
    // Another page would overwrite one that can still be in use.
    expect(requested).toBe(before);
    const other = await streamOf(own);
    expect(joined(other.slice(0, -1))).toEqual(joined(eventsOf(pages)));
  });

  it("reports that the journal failed, after everything that was read before", async () => {
    const pages = numbered(3, 128 * KIB);
    await using own = await serving(async function* () {
      yield* inOneBlock(pages);
      throw new Error("the disk is gone");
    });
    const events = await streamOf(own);
    expect(joined(events.slice(0, -1))).toEqual(joined(eventsOf(pages)));
    expect(events.at(-1)).toMatchObject({ event: "error", data: { error_code: "INTERNAL_ERROR" } });
  });
});

/** Resolves once a number is above zero and has not changed for a while, which means that the writer waits. */
async function untilStill(count: () => number): Promise<void> {
  for (let seen = 0, same = 0; same < 20;) {
    await new Promise((resolve) => setTimeout(resolve, 10));
    same = count() > 0 && count() === seen ? same + 1 : 0;
    seen = count();
  }
}
