import { gzipSync } from "node:zlib";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { ALICES_KEY, HttpFixture, textUntilClose } from "../../testing/http-fixture.ts";

const STALL_MS = 300;
const MAX_BODY = 100_000;
const MAX_UPLOAD = 300_000;
const limits = { maxBodyBytes: MAX_BODY, maxUploadBytes: MAX_UPLOAD };

let http: HttpFixture;
let id: string;
beforeAll(async () => {
  http = await HttpFixture.start({
    stallTimeoutMs: STALL_MS,
    limits,
  });
  id = await http.createSession();
});
afterAll(async () => await http[Symbol.asyncDispose]());

const head = (method: string, path: string, ...lines: readonly string[]): string =>
  [
    `${method} ${path} HTTP/1.1`,
    "Host: localhost",
    `Authorization: Bearer ${ALICES_KEY}`,
    ...lines,
    "",
    "",
  ].join("\r\n");

const chunk = (bytes: number): string => `${bytes.toString(16)}\r\n${"x".repeat(bytes)}\r\n`;

const bodies = [
  ["POST", "/fs/write", MAX_BODY],
  ["PUT", "/fs/file?path=big", MAX_UPLOAD],
  ["PUT", "/fs/tar", MAX_UPLOAD],
] as const;

describe("a body that is too large", () => {
  it.each(bodies)("is refused by its announced length: %s %s", async (method, path, max) => {
    const url = `/v1/sessions/${id}${path}`;
    const answer = await http.call(url, { method, body: Buffer.alloc(max + 1, "x") });
    expect(answer).toMatchObject({ status: 413, json: { error_code: "PAYLOAD_TOO_LARGE" } });
    expect(answer.json.details).toEqual({ max_bytes: max });
  });

  it.each(bodies)(
    "is refused while it arrives, however long it would continue: %s %s",
    async (method, path) => {
      const socket = await http.connect();
      const ended = textUntilClose(socket);
      socket.write(head(method, `/v1/sessions/${id}${path}`, "Transfer-Encoding: chunked"));
      // It never stops on its own.
      const sending = setInterval(() => socket.write(chunk(60_000)), 1);
      const answer = await ended;
      clearInterval(sending);
      expect(answer).toMatch(/^HTTP\/1\.1 413 /);
      expect(answer).toContain("PAYLOAD_TOO_LARGE");
    },
  );

  it("is not even sent by a client that expects 100-continue", async () => {
    const socket = await http.connect();
    const path = `/v1/sessions/${id}/fs/file?path=a`;
    socket.write(
      head(
        "PUT",
        path,
        `Content-Length: ${MAX_UPLOAD + 1}`,
        "Expect: 100-continue",
        "Connection: close",
      ),
    );
    const answer = await textUntilClose(socket);
    expect(answer).toMatch(/^HTTP\/1\.1 413 /);
  });

  it("can be as large as allowed, also with 100-continue", async () => {
    const socket = await http.connect();
    const path = `/v1/sessions/${id}/fs/file?path=a`;
    socket.write(
      head(
        "PUT",
        path,
        `Content-Length: ${MAX_UPLOAD}`,
        "Expect: 100-continue",
        "Connection: close",
      ),
    );
    const ended = textUntilClose(socket);
    const first = await new Promise<Buffer>((resolve) => socket.once("data", resolve));
    expect(first.toString()).toMatch(/^HTTP\/1\.1 100 /);
    socket.write(Buffer.alloc(MAX_UPLOAD));
    expect(await ended).toContain(`"size":${MAX_UPLOAD}`);
  });

  it.each(bodies)(
    "is read if the client sends all of it first, and the connection closes: %s %s",
    async (method, path, max) => {
      await using patient = await HttpFixture.start({ limits });
      const socket = await patient.connect();
      // Nothing is read before the last byte is written, so a reset would lose the response.
      socket.pause();
      const url = `/v1/sessions/${await patient.createSession()}${path}`;
      // More than the kernel's buffers hold.
      const bytes = max + 12_000_000;
      socket.write(head(method, url, `Content-Length: ${bytes}`, "Connection: close"));
      const sent = new Promise<unknown>((resolve) => {
        socket.once("error", resolve);
        socket.write(Buffer.alloc(bytes, "x"), resolve);
      });
      expect(await sent).toBeFalsy();
      const ended = textUntilClose(socket);
      socket.resume();
      const answer = await ended;
      expect(answer).toMatch(/^HTTP\/1\.1 413 /);
      expect(answer).toContain("PAYLOAD_TOO_LARGE");
    },
  );

  it("does not change the old file", async () => {
    const url = `/v1/sessions/${id}/fs/file?path=kept`;
    await http.call(url, { method: "PUT", body: "old" });
    const socket = await http.connect();
    socket.write(head("PUT", url, "Transfer-Encoding: chunked"));
    const ended = textUntilClose(socket);
    for (let sent = 0; sent < MAX_UPLOAD + 60_000; sent += 60_000) socket.write(chunk(60_000));
    expect(await ended).toMatch(/^HTTP\/1\.1 413 /);
    expect((await http.call(url)).text).toBe("old");
  });
});

describe("a compressed body", () => {
  it.each(bodies)(
    "is refused, because it would have to be decompressed: %s %s",
    async (method, path) => {
      const answer = await http.call(`/v1/sessions/${id}${path}`, {
        method,
        body: gzipSync(Buffer.alloc(10_000_000)),
        headers: { "content-encoding": "gzip" },
      });
      expect(answer).toMatchObject({ status: 400, json: { error_code: "INVALID_REQUEST" } });
    },
  );
});

describe("a body that stops coming", () => {
  it.each(bodies)("is aborted: %s %s", async (method, path) => {
    const socket = await http.connect();
    socket.write(`${head(method, `/v1/sessions/${id}${path}`, "Content-Length: 90000")}{"path":`);
    const answer = await textUntilClose(socket);
    expect(answer).toMatch(/^HTTP\/1\.1 400 /);
    expect(answer).toContain("the body stalled");
  });

  it("can take longer in total than any pause", async () => {
    const socket = await http.connect();
    const url = `/v1/sessions/${id}/fs/file?path=slow`;
    socket.write(head("PUT", url, "Content-Length: 6", "Connection: close"));
    const ended = textUntilClose(socket);
    for (const letter of "abcdef") {
      socket.write(letter);
      await new Promise((resolve) => setTimeout(resolve, STALL_MS / 3));
    }
    expect(await ended).toMatch(/^HTTP\/1\.1 200 /);
    expect((await http.call(url)).text).toBe("abcdef");
  });
});
