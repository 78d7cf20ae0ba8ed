import fc from "fast-check";
import { afterEach, describe, expect, test, vi } from "vitest";
import type { OutputChunk } from "./exec-types.ts";
import {
  type Answer,
  cut,
  event,
  events,
  type EventsEnd,
  failure,
  json,
  ScriptedServer,
} from "./testing/scripted-server.ts";
import { chunkBody, execInfoBody, sessionOf } from "./testing/wire-samples.ts";

const base = "/v1/sessions/ses_1";
const named = { "X-Exec-Id": "exe_1" };
const done = event("done", execInfoBody);
const chunk = (offset: number, content: string | Uint8Array): string =>
  event("chunk", chunkBody(offset, content));
const answer = (texts: readonly string[], after: EventsEnd = "end"): Answer =>
  events(texts, after, named);

async function collect(output: AsyncIterable<OutputChunk>): Promise<OutputChunk[]> {
  return Array.fromAsync(output);
}

const textOf = (chunks: readonly OutputChunk[]): string => chunks.map(({ text }) => text).join("");

afterEach(() => {
  vi.restoreAllMocks();
});

describe("stream()", () => {
  test("delivers output as it arrives and then the result", async () => {
    await using server = await ScriptedServer.start(
      answer([": ping\n\n", chunk(0, "a"), chunk(1, "b\n"), done]),
    );
    const stream = sessionOf(server).stream("echo", { cwd: "/tmp" });
    const chunks = await collect(stream);
    expect(chunks).toEqual([
      {
        stream: "stdout",
        text: "a",
        bytes: new Uint8Array([97]),
        seq: 0,
        timestamp: 1_769_860_800_000,
        offset: 0,
        skippedBytes: 0,
      },
      expect.objectContaining({ text: "b\n", offset: 1 }),
    ]);
    expect(await stream.result).toMatchObject({ execId: "exe_1", exitCode: 0 });
    expect((await stream.exec).id).toBe("exe_1");
    expect(server.lines).toEqual([`POST ${base}/exec/stream`]);
    expect(server.json(0)).toEqual({ cmd: "echo", cwd: "/tmp", raw_output: true });
  });

  test("delivers a chunk while the command still runs", async () => {
    const first = Promise.withResolvers<void>();
    await using server = await ScriptedServer.start(async (response) => {
      response.writeHead(200, named).write(chunk(0, "a"));
      await first.promise;
      response.end(chunk(1, "b") + done);
    });
    const texts: string[] = [];
    for await (const { text } of sessionOf(server).stream("x")) {
      texts.push(text);
      first.resolve();
    }
    expect(texts).toEqual(["a", "b"]);
  });

  test("continues where it stopped if the connection breaks, without running the command again", async () => {
    const half = chunk(6, "lost").slice(0, 30);
    await using server = await ScriptedServer.start(
      answer([chunk(0, "abc"), chunk(3, "def"), half], "cut"),
      cut,
      answer([chunk(6, "ghi")]),
      answer([chunk(9, "j"), done]),
    );
    const stream = sessionOf(server).stream("x");
    expect(textOf(await collect(stream))).toBe("abcdefghij");
    expect((await stream.result).exitCode).toBe(0);
    expect(server.lines).toEqual([
      `POST ${base}/exec/stream`,
      `GET ${base}/execs/exe_1/stream?cursor=6&raw=true`,
      `GET ${base}/execs/exe_1/stream?cursor=6&raw=true`,
      `GET ${base}/execs/exe_1/stream?cursor=9&raw=true`,
    ]);
  });

  test("starts the command with one key if the first response is lost", async () => {
    await using server = await ScriptedServer.start(cut, answer([chunk(0, "a"), done]));
    expect(textOf(await collect(sessionOf(server).stream("x")))).toBe("a");
    expect(server.lines).toEqual([`POST ${base}/exec/stream`, `POST ${base}/exec/stream`]);
    const [one, other] = server.requests.map(({ headers }) => headers["idempotency-key"]);
    expect(one).toMatch(/^[\da-f-]{36}$/);
    expect(other).toBe(one);
  });

  test("continues after a temporary error, such as a daemon that restarts", async () => {
    const stopping = event("error", { error: "stopping", error_code: "SANDBOX_UNREACHABLE" });
    await using server = await ScriptedServer.start(
      answer([chunk(0, "a"), stopping]),
      answer([chunk(1, "b"), done]),
    );
    expect(textOf(await collect(sessionOf(server).stream("x")))).toBe("ab");
  });

  test("throws a permanent error", async () => {
    const broken = event("error", { error: "no such session", error_code: "SESSION_NOT_FOUND" });
    await using server = await ScriptedServer.start(answer([chunk(0, "a"), broken]));
    const stream = sessionOf(server).stream("x");
    await expect(collect(stream)).rejects.toMatchObject({
      code: "SESSION_NOT_FOUND",
      message: "no such session",
      status: 404,
    });
  });

  test("gives up if connections break repeatedly without a byte", async () => {
    const nothing = answer([], "cut");
    await using server = await ScriptedServer.start(nothing, nothing, nothing, nothing);
    const output = collect(sessionOf(server).stream("x"));
    await expect(output).rejects.toMatchObject({ code: "CONNECTION_FAILED" });
    expect(server.requests).toHaveLength(3);
  });

  test("does not give up on long connections without data", async () => {
    let nowMs = 0;
    vi.spyOn(performance, "now").mockImplementation(() => (nowMs += 60_000));
    const nothing = answer([], "cut");
    await using server = await ScriptedServer.start(
      nothing,
      nothing,
      nothing,
      nothing,
      answer([chunk(0, "a"), done]),
    );
    expect(textOf(await collect(sessionOf(server).stream("x")))).toBe("a");
  });

  test("a command that exceeded its timeout is a result, not an error", async () => {
    const exec = { ...execInfoBody, exit_code: 124, end_reason: "timeout", timed_out: true };
    const late = event("error", { error: "too long", error_code: "COMMAND_TIMEOUT", exec });
    await using server = await ScriptedServer.start(answer([chunk(0, "a"), late]));
    const stream = sessionOf(server).stream("x");
    expect(textOf(await collect(stream))).toBe("a");
    expect(await stream.result).toMatchObject({ timedOut: true, endReason: "timeout" });
  });

  test("throws the daemon's errors", async () => {
    await using server = await ScriptedServer.start(failure(410, "SESSION_EXPIRED"));
    const stream = sessionOf(server).stream("x");
    await expect(collect(stream)).rejects.toMatchObject({ code: "SESSION_EXPIRED" });
    await expect(stream.exec).rejects.toMatchObject({ code: "SESSION_EXPIRED" });
    await expect(stream.result).rejects.toMatchObject({ code: "SESSION_EXPIRED" });
  });

  test("ends with the signal's reason, and closes the connection", async () => {
    const caller = new AbortController();
    const reason = new Error("enough");
    const left = Promise.withResolvers<void>();
    await using server = await ScriptedServer.start((response) => {
      response.once("close", () => left.resolve());
      response.writeHead(200, named).write(chunk(0, "a"));
    });
    const stream = sessionOf(server).stream("x", { signal: caller.signal });
    const reading = (async () => {
      for await (const _ of stream) caller.abort(reason);
    })();
    await expect(reading).rejects.toBe(reason);
    await expect(stream.result).rejects.toBe(reason);
    await left.promise;
  });
});

test("a stream whose caller aborts cancels the command on request", async () => {
  const caller = new AbortController();
  const reason = new Error("enough");
  await using server = await ScriptedServer.start(
    (response) => {
      response.writeHead(200, named).write(chunk(0, "a"));
    },
    json(202, execInfoBody),
    json(200, { ok: true, cancelled: true }),
  );
  const stream = sessionOf(server).stream("x", { signal: caller.signal, onAbort: "cancel" });
  const reading = (async () => {
    for await (const _ of stream) caller.abort(reason);
  })();
  await expect(reading).rejects.toBe(reason);
  expect(server.lines.slice(1)).toEqual([`POST ${base}/execs`, `POST ${base}/execs/exe_1/cancel`]);
});

describe("the result of a stream", () => {
  const waited = [
    json(200, { ...execInfoBody, output: "", stdout: "", stderr: "", truncated: true }),
  ];

  test("is available without a loop, and the unread connection is closed", async () => {
    const left = Promise.withResolvers<void>();
    await using server = await ScriptedServer.start(
      (response) => {
        response.once("close", () => left.resolve());
        response.writeHead(200, named).write(chunk(0, "a"));
      },
      ...waited,
      json(200, execInfoBody),
    );
    const stream = sessionOf(server).stream("x");
    expect(await stream.result).toMatchObject({ exitCode: 0, outputBytes: 3 });
    await left.promise;
    expect(server.lines.slice(1)).toEqual([
      `POST ${base}/execs/exe_1/wait`,
      `GET ${base}/execs/exe_1`,
    ]);
  });

  test("can be awaited during a loop, which has the only connection", async () => {
    await using server = await ScriptedServer.start(answer([chunk(0, "a"), done]));
    const stream = sessionOf(server).stream("x");
    const [result, chunks] = await Promise.all([stream.result, collect(stream)]);
    expect(result.exitCode).toBe(0);
    expect(textOf(chunks)).toBe("a");
    expect(server.requests).toHaveLength(1);
  });

  test("is available after a loop was left, and the output can still be read", async () => {
    await using server = await ScriptedServer.start(
      answer([chunk(0, "a")], "stay"),
      ...waited,
      json(200, execInfoBody),
      answer([chunk(0, "a"), chunk(1, "b"), done]),
    );
    const stream = sessionOf(server).stream("x");
    for await (const _ of stream) break;
    expect((await stream.result).exitCode).toBe(0);
    expect(textOf(await collect(stream))).toBe("ab");
    expect(server.lines.at(-1)).toBe(`GET ${base}/execs/exe_1/stream?cursor=0&raw=true`);
  });
});

describe("output", () => {
  const follow = (server: ScriptedServer, cursor?: number): AsyncIterable<OutputChunk> =>
    sessionOf(server).getExec("exe_1").follow({ cursor });

  test("joins characters that are split, even by a broken connection", async () => {
    const euro = new TextEncoder().encode("1€2");
    await using server = await ScriptedServer.start(
      answer([chunk(0, euro.subarray(0, 2))], "cut"),
      answer([chunk(2, euro.subarray(2)), done]),
    );
    const chunks = await collect(follow(server));
    expect(chunks.map(({ text }) => text)).toEqual(["1", "€2"]);
    expect(chunks.flatMap(({ bytes }) => [...bytes])).toEqual([...euro]);
  });

  test("is exact as bytes if it is not text, and keeps a byte order mark", async () => {
    const odd = new Uint8Array([0xef, 0xbb, 0xbf, 0xff, 0x00, 0xe2]);
    await using server = await ScriptedServer.start(answer([chunk(0, odd), done]));
    const chunks = await collect(follow(server));
    expect(chunks.flatMap(({ bytes }) => [...bytes])).toEqual([...odd]);
    expect(textOf(chunks)).toBe("\uFEFF\uFFFD\0\uFFFD");
  });

  test("that arrives twice is delivered once, and missing output is reported", async () => {
    await using server = await ScriptedServer.start(
      answer([chunk(5, "abc"), chunk(5, "abcde"), chunk(5, "ab"), chunk(100, "z"), done]),
    );
    const chunks = await collect(follow(server, 5));
    expect(chunks.map(({ text, offset, skippedBytes }) => [text, offset, skippedBytes])).toEqual([
      ["abc", 5, 0],
      ["de", 8, 0],
      ["z", 100, 90],
    ]);
    expect(server.lines).toEqual([`GET ${base}/execs/exe_1/stream?cursor=5&raw=true`]);
  });

  test("decodes stdout and stderr separately", async () => {
    const [first, ...rest] = new TextEncoder().encode("€");
    const error = { ...chunkBody(1, "!"), stream: "stderr" };
    await using server = await ScriptedServer.start(
      answer([
        chunk(0, new Uint8Array([first!])),
        event("chunk", error),
        chunk(2, new Uint8Array(rest)),
        done,
      ]),
    );
    const chunks = await collect(follow(server));
    expect(chunks.map(({ stream, text }) => [stream, text])).toEqual([
      ["stdout", ""],
      ["stderr", "!"],
      ["stdout", "€"],
    ]);
  });

  test("is complete and in order wherever connections break", async () => {
    const output = new TextEncoder().encode("0123456789äöü€😀abcdefghijklmnopqrstuvwxyz");
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.nat({ max: 900 }), { maxLength: 6 }),
        fc.integer({ min: 1, max: 9 }),
        async (breaks, pieceBytes) => {
          // A server that sends from the cursor on and disconnects after a number of characters.
          const serve: Answer = (response, { url }) => {
            const from = Number(new URL(url, "http://x").searchParams.get("cursor") ?? 0);
            let text = "";
            for (let at = from; at < output.length; at += pieceBytes) {
              text += chunk(at, output.subarray(at, at + pieceBytes));
            }
            const broken = breaks.shift();
            response.writeHead(200, named);
            if (broken === undefined) response.end(text + done);
            else response.write(text.slice(0, broken), () => response.destroy());
          };
          await using server = await ScriptedServer.start(...new Array<Answer>(20).fill(serve));
          const session = sessionOf(server, { maxRetries: 20 });
          const chunks = await collect(session.stream("x"));
          expect(Buffer.concat(chunks.map(({ bytes }) => bytes)).equals(output)).toBe(true);
          expect(textOf(chunks)).toBe(new TextDecoder().decode(output));
          expect(server.lines.filter((line) => line.startsWith("POST"))).toHaveLength(1);
        },
      ),
      { numRuns: 40 },
    );
  });

  test("can be followed beyond the command's end, or only one stream", async () => {
    const skipped = event("skipped", { skipped_bytes: 7 });
    await using server = await ScriptedServer.start(
      answer([chunk(10, "a")], "cut"),
      answer([chunk(20, "b"), skipped, chunk(40, "c"), done]),
    );
    const exec = sessionOf(server).getExec("exe_1");
    const chunks = await collect(exec.follow({ stream: "stdout", until: "closed" }));
    expect(chunks.map(({ text, skippedBytes }) => [text, skippedBytes])).toEqual([
      ["a", 0],
      ["b", 0],
      ["c", 7],
    ]);
    expect(server.lines).toEqual([
      `GET ${base}/execs/exe_1/stream?cursor=0&raw=true&stream=stdout&until=closed`,
      `GET ${base}/execs/exe_1/stream?cursor=11&raw=true&stream=stdout&until=closed`,
    ]);
  });

  test("can be read in pages", async () => {
    const page = {
      exec_id: "exe_1",
      cursor: 3,
      next_cursor: 9,
      chunks: [chunkBody(5, "abcd")],
      skipped_bytes: 2,
      done: true,
      closed: true,
      exec: execInfoBody,
    };
    await using server = await ScriptedServer.start(json(200, page));
    const read = await sessionOf(server)
      .getExec("exe_1")
      .read({ cursor: 3, maxBytes: 10, waitMs: 20 });
    expect(read).toMatchObject({
      nextCursor: 9,
      skippedBytes: 2,
      done: true,
      exec: { exitCode: 0 },
    });
    expect(textOf(read.chunks)).toBe("abcd");
    expect(server.lines).toEqual([
      `GET ${base}/execs/exe_1/output?cursor=3&max_bytes=10&wait_ms=20&raw=true`,
    ]);
  });
});

test("a stream that is not consumed does not end the program if it fails", async () => {
  const failed = vi.fn<() => void>();
  process.on("unhandledRejection", failed);
  try {
    await using server = await ScriptedServer.start();
    const refusing: typeof fetch = () => Promise.reject(new TypeError("no network"));
    sessionOf(server, { fetch: refusing, maxRetries: 0 }).stream("x");
    for (let turn = 0; turn < 5; turn++) await new Promise((resolve) => setImmediate(resolve));
    expect(failed).not.toHaveBeenCalled();
  } finally {
    process.off("unhandledRejection", failed);
  }
});
