import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { ALICES_KEY, HttpFixture, textUntilClose } from "../../testing/http-fixture.ts";
import { parseEvents } from "../../testing/read-events.ts";

let http: HttpFixture;
beforeAll(async () => {
  http = await HttpFixture.start({ headersTimeoutMs: 500 });
});
afterAll(async () => await http[Symbol.asyncDispose]());

const bearer = `Authorization: Bearer ${ALICES_KEY}`;

function refusal(answer: string): unknown {
  expect(answer).toMatch(/^HTTP\/1\.1 4\d\d /);
  expect(answer.toLowerCase()).toContain("x-request-id: ");
  return JSON.parse(answer.split("\r\n\r\n")[1] ?? "null");
}

describe("an invalid request", () => {
  it.each([
    ["no HTTP", "hello\r\n\r\n"],
    [
      "two lengths of one body",
      `POST /v1/sessions HTTP/1.1\r\nHost: localhost\r\n${bearer}\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n`,
    ],
    [
      "two different lengths",
      `POST /v1/sessions HTTP/1.1\r\nHost: localhost\r\n${bearer}\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n{}`,
    ],
    [
      "a line end inside a header",
      `GET /v1/version HTTP/1.1\r\nHost: localhost\r\n${bearer}\rX: y\r\n\r\n`,
    ],
    [
      "a NUL in a header",
      `GET /v1/version HTTP/1.1\r\nHost: localhost\r\n${bearer}\r\nX: a\0b\r\n\r\n`,
    ],
    [
      "a space before the colon",
      `GET /v1/version HTTP/1.1\r\nHost: localhost\r\nAuthorization : Bearer ${ALICES_KEY}\r\n\r\n`,
    ],
    [
      "chunks that are none",
      `POST /v1/sessions HTTP/1.1\r\nHost: localhost\r\n${bearer}\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n`,
    ],
  ])("is refused in the API's error format: %s", async (_name, text) => {
    expect(refusal(await http.exchange(text))).toMatchObject({ error_code: "INVALID_REQUEST" });
  });

  it("is refused if its head is too large", async () => {
    const text = `GET / HTTP/1.1\r\nHost: localhost\r\nX: ${"x".repeat(40_000)}\r\n\r\n`;
    expect(refusal(await http.exchange(text))).toMatchObject({ error_code: "PAYLOAD_TOO_LARGE" });
  });
});

describe("a client that sends its head slowly", () => {
  it("is disconnected, with and without a first byte, while others are served", async () => {
    const sockets = await Promise.all(Array.from({ length: 40 }, () => http.connect()));
    const slow = sockets.map((socket, index) => {
      if (index % 2 === 0) socket.write("GET /healthz HTTP/1.1\r\nHost: loc");
      return textUntilClose(socket);
    });
    expect((await http.call("/v1/version")).status).toBe(200);
    for (const answer of await Promise.all(slow))
      expect(refusal(answer)).toMatchObject({ error_code: "INVALID_REQUEST" });
  });
});

describe("a client that does not wait for responses", () => {
  const ahead = (count: number, last: string): string =>
    `GET /v1/version HTTP/1.1\r\nHost: localhost\r\n${bearer}\r\n\r\n`.repeat(count) + last;

  it("gets all of them, in order, if few are outstanding", async () => {
    const last = `GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n`;
    const text = await http.exchange(ahead(15, last));
    expect(text.match(/HTTP\/1\.1 200 /g)).toHaveLength(16);
    expect(text.endsWith('{"status":"ok"}')).toBe(true);
  });

  it("is disconnected if many are outstanding", async () => {
    expect(await http.exchange(ahead(1_000, ""))).toBe("");
  });
});

describe("a body in chunks of all sizes", () => {
  it("arrives complete and in order, and the connection continues", async () => {
    const id = await http.createSession();
    const chunks = Array.from({ length: 20_000 }, (_, index) =>
      `${index} `.repeat(index % 1_000 === 0 ? 20_000 : 1),
    );
    const put = `PUT /v1/sessions/${id}/fs/file?path=pieces HTTP/1.1\r\nHost: localhost\r\n${bearer}\r\nTransfer-Encoding: chunked\r\n\r\n`;
    const body = chunks.map((chunk) => `${chunk.length.toString(16)}\r\n${chunk}\r\n`).join("");
    const get = `GET /v1/sessions/${id}/fs/file?path=pieces HTTP/1.1\r\nHost: localhost\r\n${bearer}\r\nConnection: close\r\n\r\n`;
    const socket = await http.connect();
    const ended = textUntilClose(socket);
    socket.write(`${put}${body}0\r\n\r\n`);
    while (!(await http.call(`/v1/sessions/${id}/fs/stat?path=pieces`)).text.includes("size"))
      await new Promise(setImmediate);
    socket.write(get);
    expect((await ended).endsWith(`\r\n\r\n${chunks.join("")}`)).toBe(true);
  });
});

describe("a request with unusual headers", () => {
  it.each(["Expect: something-else", "Expect: 100-continue", "Upgrade: h2c", "Upgrade: websocket"])(
    "is treated like any other, the key first: %s",
    async (header) => {
      const text = (key: string): string =>
        `GET /v1/version HTTP/1.1\r\nHost: localhost\r\n${key}${header}\r\nConnection: ${header.startsWith("Upgrade") ? "upgrade, " : ""}close\r\n\r\n`;
      expect(await http.exchange(text(""))).toMatch(/^HTTP\/1\.1 401 /);
      expect(await http.exchange(text(`${bearer}\r\n`))).toMatch(/HTTP\/1\.1 200 /);
    },
  );
});

describe("a daemon that stops", () => {
  it("ends streams and waits, refuses new requests, and closes", async () => {
    await using stopping = await HttpFixture.start();
    const id = await stopping.createSession();
    const run = { body: { cmd: "sleep 1000" } };
    const stream = await stopping.fetch(`/v1/sessions/${id}/exec/stream`, {
      body: { cmd: ["sleep", "1000"] },
    });
    const started = await stopping.call(`/v1/sessions/${id}/execs`, run);
    const waiting = stopping.call(`/v1/sessions/${id}/execs/${started.json.exec_id}/wait`, {
      method: "POST",
    });
    const watching = await stopping.fetch(`/v1/sessions/${id}/fs/watch`);
    const running = stopping.call(`/v1/sessions/${id}/exec`, { body: { cmd: ["sleep", "1000"] } });
    while (stopping.core.core.counts().runningExecs < 3) await new Promise(setImmediate);
    const closed = stopping.app.close();
    for (const text of [await stream.text(), await watching.text()])
      expect(parseEvents(text)).toEqual([
        {
          event: "error",
          data: {
            error: expect.stringContaining("the daemon is stopping") as string,
            error_code: "SANDBOX_UNREACHABLE",
          },
        },
      ]);
    for (const answer of [await waiting, await running])
      expect(answer).toMatchObject({ status: 503, json: { error_code: "SANDBOX_UNREACHABLE" } });
    await closed;
  });

  it("listens and reports that it is stopping until the last request has ended", async () => {
    await using stopping = await HttpFixture.start();
    const id = await stopping.createSession();
    const socket = await stopping.connect();
    const url = `/v1/sessions/${id}/fs/file?path=last`;
    socket.write(
      `PUT ${url} HTTP/1.1\r\nHost: localhost\r\n${bearer}\r\nContent-Length: 4\r\n\r\nab`,
    );
    const ended = textUntilClose(socket);
    while (!(await stopping.call(`/v1/sessions/${id}`)).text.includes("running"))
      await new Promise(setImmediate);
    const closed = stopping.app.close();
    expect(await stopping.call("/readyz", { key: null })).toMatchObject({
      status: 503,
      json: { error_code: "SANDBOX_UNREACHABLE" },
    });
    expect((await stopping.call("/healthz", { key: null })).status).toBe(200);
    expect((await stopping.call("/v1/sessions")).status).toBe(503);
    socket.write("cd");
    expect(await ended).toMatch(/^HTTP\/1\.1 200 /);
    await closed;
    await expect(stopping.call("/readyz")).rejects.toThrow();
  });

  it("does not wait for a WebSocket whose client no longer responds", async () => {
    await using stopping = await HttpFixture.start({ closingGraceMs: 100 });
    const id = await stopping.createSession();
    const socket = await stopping.connect();
    const upgrade = `Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: ${"a".repeat(22)}==`;
    socket.write(
      `GET /v1/sessions/${id}/pty?cmd=cat HTTP/1.1\r\nHost: localhost\r\n${bearer}\r\n${upgrade}\r\n\r\n`,
    );
    const ended = textUntilClose(socket);
    while (stopping.core.core.counts().runningExecs < 1) await new Promise(setImmediate);
    await stopping.app.close();
    const shown = await ended;
    expect(shown).toMatch(/^HTTP\/1\.1 101 /);
    expect(shown).toContain("the daemon is stopping");
  });
});
