import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { ALICES_KEY, HttpFixture, textUntilClose } from "../../../testing/http-fixture.ts";
import { parseEvents, readEvents } from "../../../testing/read-events.ts";
import type { ServerEvent } from "../../../testing/read-events.ts";

let http: HttpFixture;
let id: string;
beforeAll(async () => {
  http = await HttpFixture.start();
  id = await http.createSession();
});
afterAll(async () => await http[Symbol.asyncDispose]());

async function start(body: object): Promise<string> {
  return (await http.call(`/v1/sessions/${id}/execs`, { body })).json.exec_id as string;
}

async function type(exec: string, body: object): Promise<void> {
  await http.call(`/v1/sessions/${id}/execs/${exec}/stdin`, { body });
}

async function next(events: AsyncGenerator<ServerEvent>): Promise<ServerEvent> {
  const { value } = await events.next();
  return value as ServerEvent;
}

describe("POST exec/stream", () => {
  it("sends output while the command runs, then its end", async () => {
    const response = await http.fetch(`/v1/sessions/${id}/exec/stream`, {
      body: { cmd: ["cat"], stdin_open: true },
    });
    expect(response.status).toBe(200);
    expect(response.headers.get("content-type")).toBe("text/event-stream; charset=utf-8");
    expect(response.headers.get("x-request-id")).toBeTruthy();
    const exec = response.headers.get("x-exec-id") ?? "";
    const events = readEvents(response);
    await type(exec, { text: "first" });
    expect(await next(events)).toEqual({
      event: "chunk",
      id: "5",
      data: {
        chunk: "first",
        timestamp: expect.any(Number) as number,
        seq: 0,
        stream: "stdout",
        offset: 0,
      },
    });
    await type(exec, { text: " last", close: true });
    expect(await next(events)).toMatchObject({
      event: "chunk",
      id: "10",
      data: { chunk: " last", offset: 5 },
    });
    const done = await next(events);
    expect(done.event).toBe("done");
    expect(done.data).toMatchObject({
      exec_id: exec,
      exit_code: 0,
      cwd: "/workspace",
      end_reason: "exited",
    });
    expect(done.data.duration_ms).toEqual(expect.any(Number));
    expect((await events.next()).done).toBe(true);
  });

  it("sends each event in one write", async () => {
    const socket = await http.connect();
    const body = JSON.stringify({ cmd: "echo one; echo two >&2; echo three" });
    socket.write(
      `POST /v1/sessions/${id}/exec/stream HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${ALICES_KEY}\r\nContent-Length: ${body.length}\r\nConnection: close\r\n\r\n${body}`,
    );
    const [, chunked = ""] = (await textUntilClose(socket)).split(/\r\n\r\n(.*)/s);
    // A chunk of the transfer is one write of the server.
    const writes: string[] = [];
    for (let rest = chunked; rest !== "";) {
      const [size = "0"] = rest.split("\r\n");
      const begin = size.length + 2;
      const length = Number.parseInt(size, 16);
      if (length === 0) break;
      writes.push(rest.slice(begin, begin + length));
      rest = rest.slice(begin + length + 2);
    }
    expect(writes).toHaveLength(4);
    for (const write of writes) {
      expect(parseEvents(write)).toHaveLength(1);
      expect(write.endsWith("\n\n")).toBe(true);
    }
  });

  it("joins characters that were split, for each stream separately", async () => {
    const exec = await start({ cmd: ["cat"], stdin_open: true });
    const events = readEvents(await http.fetch(`/v1/sessions/${id}/execs/${exec}/stream`));
    const euro = Buffer.from("€");
    await type(exec, {
      content_base64: Buffer.concat([Buffer.from("a"), euro.subarray(0, 1)]).toString("base64"),
    });
    // The cursor is before the byte that waits, so nothing is missing for a reader that reconnects.
    expect(await next(events)).toMatchObject({ id: "1", data: { chunk: "a", offset: 0 } });
    await type(exec, { content_base64: euro.subarray(1, 2).toString("base64") });
    await type(exec, {
      content_base64: Buffer.concat([euro.subarray(2), Buffer.from([0xff])]).toString("base64"),
    });
    expect(await next(events)).toMatchObject({ id: "5", data: { chunk: "€\ufffd", offset: 1 } });
    await type(exec, { content_base64: Buffer.from([0xe2]).toString("base64"), close: true });
    expect(await next(events)).toMatchObject({ id: "6", data: { chunk: "\ufffd", offset: 5 } });
    expect(await next(events)).toMatchObject({ event: "done" });
  });

  it("returns the exact bytes on request", async () => {
    const stdin_base64 = Buffer.from([0xe2, 0x82]).toString("base64");
    const response = await http.fetch(`/v1/sessions/${id}/exec/stream`, {
      body: { cmd: ["cat"], stdin_base64, raw_output: true },
    });
    const events = parseEvents(await response.text());
    const chunks = events.filter(({ event }) => event === "chunk");
    expect(
      Buffer.concat(chunks.map(({ data }) => Buffer.from(data.chunk_base64 as string, "base64"))),
    ).toEqual(Buffer.from([0xe2, 0x82]));
  });

  it("ends with an error after a timeout", async () => {
    const answer = await http.call(`/v1/sessions/${id}/exec/stream`, {
      body: { cmd: "echo before; sleep 30", timeout_ms: 30 },
    });
    const events = parseEvents(answer.text);
    expect(events.map(({ event }) => event)).toEqual(["chunk", "error"]);
    expect(events[1]?.data).toMatchObject({
      error: expect.stringContaining("longer than allowed") as string,
      error_code: "COMMAND_TIMEOUT",
      exec: { end_reason: "timeout" },
    });
  });

  it("returns errors of the start with their status", async () => {
    const answer = await http.call("/v1/sessions/ses_none/exec/stream", { body: { cmd: "true" } });
    expect(answer).toMatchObject({ status: 404, json: { error_code: "SESSION_NOT_FOUND" } });
  });

  it("reports later errors in an event, without the cause", async () => {
    await using own = await HttpFixture.start({
      replace: {
        exec: {
          // oxlint-disable-next-line require-yield
          async *follow() {
            await Promise.resolve();
            throw new Error("secret: /etc/shadow");
          },
        },
      },
    });
    const session = await own.createSession();
    const answer = await own.call(`/v1/sessions/${session}/exec/stream`, { body: { cmd: "true" } });
    const events = parseEvents(answer.text);
    expect(events).toMatchObject([{ event: "error", data: { error_code: "INTERNAL_ERROR" } }]);
    expect(answer.text).not.toContain("secret");
    expect(own.logLines.join("")).toContain("secret: /etc/shadow");
  });
});

describe("GET execs/{eid}/stream", () => {
  it("continues where a reader stopped", async () => {
    const exec = await start({ cmd: ["cat"], stdin: "0123456789" });
    const textFrom = async (
      query: string,
      headers: Record<string, string> = {},
    ): Promise<string> => {
      const answer = await http.call(`/v1/sessions/${id}/execs/${exec}/stream${query}`, {
        headers,
      });
      const events = parseEvents(answer.text);
      expect(events.at(-1)?.event).toBe("done");
      return events
        .slice(0, -1)
        .map(({ data }) => data.chunk as string)
        .join("");
    };
    expect(await textFrom("")).toBe("0123456789");
    expect(await textFrom("?cursor=4")).toBe("456789");
    expect(await textFrom("?cursor=4", { "last-event-id": "8" })).toBe("89");
    expect(await textFrom("?cursor=10")).toBe("");
    expect((await http.call(`/v1/sessions/${id}/execs/${exec}/stream?cursor=x`)).status).toBe(400);
  });

  it("reports how much is missing", async () => {
    await using own = await HttpFixture.start({
      replace: {
        exec: {
          async *follow() {
            const bytes = Buffer.from("rest");
            const chunk = { stream: "stdout", seq: 9, offset: 70, timestampMs: 1, bytes } as const;
            yield await Promise.resolve({ chunks: [chunk], nextOffset: 74, skippedBytes: 70 });
          },
        },
      },
    });
    const session = await own.createSession();
    const answer = await own.call(`/v1/sessions/${session}/exec/stream`, { body: { cmd: "true" } });
    expect(parseEvents(answer.text)).toMatchObject([
      { event: "skipped", id: "70", data: { skipped_bytes: 70, offset: 0 } },
      { event: "chunk", id: "74", data: { chunk: "rest", offset: 70 } },
      { event: "done" },
    ]);
  });

  it("does not end the command when its reader leaves", async () => {
    const exec = await start({ cmd: ["cat"], stdin_open: true });
    const leave = new AbortController();
    const response = await http.fetch(`/v1/sessions/${id}/execs/${exec}/stream`, {
      signal: leave.signal,
    });
    await type(exec, { text: "a" });
    await next(readEvents(response));
    leave.abort();
    await type(exec, { text: "b", close: true });
    const answer = await http.call(`/v1/sessions/${id}/execs/${exec}/stream?cursor=1`);
    expect(parseEvents(answer.text)).toMatchObject([
      { data: { chunk: "b" } },
      { event: "done", data: { exit_code: 0 } },
    ]);
  });
});

describe("output after the command's end", () => {
  const LATE = { cmd: "echo own; sleep 0.1 && echo late &" };

  it("is in a stream with until=closed, and a page says when nothing more can arrive", async () => {
    const exec = await start(LATE);
    const url = `/v1/sessions/${id}/execs/${exec}`;
    const ended = await http.call(`${url}/wait`, { body: {} });
    expect(ended.json).toMatchObject({ status: "done", background: true });
    const early = await http.call(`${url}/output`);
    expect(early.json).toMatchObject({ done: true, closed: false });
    const events = parseEvents((await http.call(`${url}/stream?until=closed`)).text);
    expect(events).toMatchObject([
      { event: "chunk", data: { chunk: "own\n" } },
      { event: "chunk", data: { chunk: "late\n", offset: 4 } },
      { event: "done", data: { background: false, background_bytes: 5, output_bytes: 4 } },
    ]);
    const page = await http.call(`${url}/output`);
    expect(page.json).toMatchObject({ done: true, closed: true, next_cursor: 9 });
    const waited = await http.call(`${url}/wait`, { body: {} });
    expect(waited.json).toMatchObject({ output: "own\nlate\n", background_bytes: 5 });
  });

  it("does not delay the end of a stream that follows only the command", async () => {
    const response = await http.call(`/v1/sessions/${id}/exec/stream`, {
      body: { cmd: "echo up && sleep 100 &" },
    });
    expect(parseEvents(response.text).at(-1)).toMatchObject({
      event: "done",
      data: { background: true },
    });
  });
});

describe("one stream of the output", () => {
  it("is sent and read alone", async () => {
    const exec = await start({ cmd: "echo out; cat /missing; echo more" });
    const url = `/v1/sessions/${id}/execs/${exec}`;
    await http.call(`${url}/wait`, { body: {} });
    const events = parseEvents((await http.call(`${url}/stream?stream=stdout`)).text);
    const chunks = events.filter(({ event }) => event === "chunk");
    expect(chunks.map(({ data }) => (data as { chunk: string }).chunk).join("")).toBe(
      "out\nmore\n",
    );
    const page = await http.call(`${url}/output?stream=stderr`);
    expect(page.json).toMatchObject({
      chunks: [{ stream: "stderr", offset: 4 }],
      skipped_bytes: 0,
      done: true,
    });
    expect(await http.call(`${url}/output?stream=both`)).toMatchObject({ status: 400 });
  });
});

describe("a stream", () => {
  it("has each event on lines that no reader splits elsewhere", async () => {
    const text = "a\u2028b\u2029c\u0085d\re";
    const response = await http.fetch(`/v1/sessions/${id}/exec/stream`, {
      body: { cmd: ["cat"], stdin: text },
    });
    const stream = await response.text();
    expect(stream).not.toMatch(/[\u0085\u2028\u2029\r]/);
    const chunks = parseEvents(stream).filter(({ event }) => event === "chunk");
    expect(chunks.map(({ data }) => data.chunk as string).join("")).toBe(text);
  });

  it("sends pings while it is quiet", async () => {
    await using own = await HttpFixture.start({ pingIntervalMs: 10 });
    const session = await own.createSession();
    const response = await own.fetch(`/v1/sessions/${session}/exec/stream`, {
      body: { cmd: ["sleep", "0.1"] },
    });
    const events = parseEvents(await response.text());
    expect(events[0]).toEqual({ event: "comment", data: "ping" });
    expect(events.at(-1)?.event).toBe("done");
  });

  it("waits for a slow reader, and disconnects one that reads nothing", async () => {
    const limits = { maxBodyBytes: 4_194_304, maxUploadBytes: 64_000_000 };
    await using own = await HttpFixture.start({ stallTimeoutMs: 200, limits });
    const session = await own.createSession();
    // More than the kernel buffers for a connection without a reader.
    const content = Buffer.alloc(32_000_000, "x");
    await own.call(`/v1/sessions/${session}/fs/file?path=big`, { method: "PUT", body: content });
    const body = JSON.stringify({ cmd: ["cat", "/workspace/big"] });
    const socket = await own.connect();
    socket.pause();
    socket.write(
      `POST /v1/sessions/${session}/exec/stream HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${ALICES_KEY}\r\nX-Request-ID: stalled\r\nContent-Length: ${body.length}\r\n\r\n${body}`,
    );
    const cutOff = (): string | undefined =>
      own.logLines.find((line) => line.includes("stalled") && line.includes("cut_off"));
    while (cutOff() === undefined) await new Promise(setImmediate);
    const received = (await textUntilClose(socket.resume())).length;
    expect(received).toBeLessThan(content.length);
    const { json } = await own.call(`/v1/sessions/${session}/execs`);
    const exec = json.execs[0].exec_id as string;
    const end = await own.call(`/v1/sessions/${session}/execs/${exec}/wait`, { body: {} });
    expect(end.json).toMatchObject({ exit_code: 0, output_bytes: content.length });
  });
});
