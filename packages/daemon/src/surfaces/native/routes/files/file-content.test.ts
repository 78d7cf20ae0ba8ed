import { SandboxError } from "@sandkasten/protocol";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { overriding } from "../../../../sessions/testing/core-fixture.ts";
import { ALICES_KEY, HttpFixture, textUntilClose } from "../../../testing/http-fixture.ts";
import type { Answer } from "../../../testing/http-fixture.ts";

let http: HttpFixture;
beforeAll(async () => {
  http = await HttpFixture.start();
});
afterAll(async () => await http[Symbol.asyncDispose]());

describe("a file as bytes", () => {
  let base: string;
  beforeAll(async () => {
    base = `/v1/sessions/${await http.createSession()}/fs/file?path=`;
  });
  const put = async (path: string, body: string | Uint8Array, query = ""): Promise<Answer> =>
    await http.call(`${base}${encodeURIComponent(path)}${query}`, { method: "PUT", body });

  it("is returned unchanged, whatever its content and size", async () => {
    const bytes = Buffer.alloc(3_000_000, Buffer.from([0, 1, 2, 253, 254, 255, 13, 10]));
    expect((await put("big", bytes)).json).toMatchObject({
      ok: true,
      path: "/workspace/big",
      size: bytes.length,
    });
    const response = await http.fetch(`${base}big`);
    expect(response.headers.get("content-length")).toBe(String(bytes.length));
    expect(Buffer.from(await response.arrayBuffer()).equals(bytes)).toBe(true);
    expect((await put("none", "")).json).toMatchObject({ size: 0 });
    const empty = await http.call(`${base}none`);
    expect([empty.status, empty.text]).toEqual([200, ""]);
    expect((await http.call(`${base}nobody`, { method: "PUT" })).json).toMatchObject({ size: 0 });
  });

  it("is sent with its real path on request, in a header that no name can break", async () => {
    const name = "größe\r\nX-Evil: 1%.txt";
    await put(name, "x");
    const path = encodeURIComponent(`./sub/../${name}`);
    const { headers, text } = await http.call(`${base}${path}&real_path=true`);
    expect(text).toBe("x");
    const header = headers.get("x-sandkasten-real-path") ?? "";
    expect(header).toMatch(/^[\x21-\x7e]+$/);
    expect(decodeURIComponent(header)).toBe(`/workspace/${name}`);
    expect(headers.has("x-evil")).toBe(false);
    expect((await http.call(`${base}${path}`)).headers.has("x-sandkasten-real-path")).toBe(false);
    const missing = await http.call(`${base}nothing&real_path=true`);
    expect(missing.json).toMatchObject({ error_code: "FILE_NOT_FOUND" });
  });

  it("is sent with the real path of the opened file, even if the name changes later", async () => {
    await using own = await HttpFixture.start({
      replace: {
        files: {
          async open(...args) {
            const files = await this.open!(...args);
            // A second lookup finds the new target of a link.
            const later = { path: "/etc/shadow" };
            return overriding(files, { realpath: () => Promise.resolve(later) });
          },
        },
      },
    });
    const file = `/v1/sessions/${await own.createSession()}/fs/file?path=opened`;
    await own.call(file, { method: "PUT", body: "x" });
    const { headers } = await own.call(`${file}&real_path=true`);
    expect(headers.get("x-sandkasten-real-path")).toBe("/workspace/opened");
  });

  it("is never sent as something that a browser would display", async () => {
    for (const name of ["page.html", "image.svg", "script.js", "x"]) {
      await put(name, "<script>alert(1)</script>");
      const { headers } = await http.call(`${base}${name}`);
      expect(headers.get("content-type")).toBe("application/octet-stream");
      expect(headers.get("x-content-type-options")).toBe("nosniff");
      expect(headers.get("content-disposition")).toBe(
        `attachment; filename="${name}"; filename*=UTF-8''${name}`,
      );
    }
  });

  it.each([
    ['a"b;c.txt', `attachment; filename="a_b_c.txt"; filename*=UTF-8''a%22b%3Bc.txt`],
    [
      "a\r\nX-Evil: 1",
      `attachment; filename="a__X-Evil__1"; filename*=UTF-8''a%0D%0AX-Evil%3A%201`,
    ],
    [
      "größe's (1).txt",
      `attachment; filename="gr__e_s__1_.txt"; filename*=UTF-8''gr%C3%B6%C3%9Fe%27s%20%281%29.txt`,
    ],
  ])("has a name that cannot break its header: %j", async (name, expected) => {
    await put(name, "x");
    const { headers, status } = await http.call(`${base}${encodeURIComponent(name)}`);
    expect(status).toBe(200);
    expect(headers.get("content-disposition")).toBe(expected);
    expect(headers.has("x-evil")).toBe(false);
  });

  it.each([
    ["bytes=0-3", 206, "bytes 0-3/10", "0123"],
    ["bytes=4-", 206, "bytes 4-9/10", "456789"],
    ["bytes=8-100", 206, "bytes 8-9/10", "89"],
    ["bytes=-3", 206, "bytes 7-9/10", "789"],
    ["bytes=-100", 206, "bytes 0-9/10", "0123456789"],
    ["bytes=9-9", 206, "bytes 9-9/10", "9"],
    ["bytes=10-", 416, "bytes */10", ""],
    ["bytes=-0", 416, "bytes */10", ""],
    ["bytes=5-2", 200, null, "0123456789"],
    ["bytes=0-1,4-5", 200, null, "0123456789"],
    ["lines=0-1", 200, null, "0123456789"],
    ["bytes=a-b", 200, null, "0123456789"],
  ])("is sent partially: %s", async (range, status, contentRange, text) => {
    await put("ten", "0123456789");
    const answer = await http.call(`${base}ten`, { headers: { range } });
    expect([answer.status, answer.text]).toEqual([status, text]);
    expect(answer.headers.get("content-range")).toBe(contentRange);
    expect(answer.headers.get("content-length")).toBe(String(text.length));
  });

  it("is sent completely if it has changed since the client's part", async () => {
    await put("versioned", "0123456789");
    const etag =
      (await http.call(`${base}versioned`, { method: "HEAD" })).headers.get("etag") ?? "";
    const ask = async (ifRange: string): Promise<Answer> =>
      await http.call(`${base}versioned`, { headers: { range: "bytes=5-", "if-range": ifRange } });
    expect(await ask(etag)).toMatchObject({ status: 206, text: "56789" });
    expect(await ask('"other"')).toMatchObject({ status: 200, text: "0123456789" });
    await put("versioned", "new content");
    expect(await ask(etag)).toMatchObject({ status: 200, text: "new content" });
  });

  it("is described by HEAD", async () => {
    await put("ten", "0123456789");
    const { status, headers, text } = await http.call(`${base}ten`, { method: "HEAD" });
    expect([status, text]).toEqual([200, ""]);
    expect(headers.get("content-length")).toBe("10");
    expect(headers.get("accept-ranges")).toBe("bytes");
    expect(headers.get("content-type")).toBe("application/octet-stream");
  });

  it("gets a mode, and replaces another only if allowed", async () => {
    await put("run.sh", "x", "&mode=750");
    const stat = base.replace("/file?", "/stat?");
    expect((await http.call(`${stat}run.sh`)).json).toMatchObject({ mode: 0o750 });
    expect((await put("run.sh", "y", "&overwrite=false")).status).toBe(409);
    expect((await put("run.sh", "y", "&mode=9")).status).toBe(400);
    expect((await http.call(`${base}run.sh`)).text).toBe("x");
  });

  it("is unchanged if its replacement arrives only partially", async () => {
    await put("kept", "old");
    const socket = await http.connect();
    const url = `${base}kept`;
    socket.write(
      `PUT ${url} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${ALICES_KEY}\r\nX-Request-ID: half\r\nContent-Length: 1000\r\n\r\n${"n".repeat(500)}`,
    );
    await new Promise((resolve) => setTimeout(resolve, 20));
    socket.destroy();
    while (!http.logLines.some((line) => line.includes('"half"'))) await new Promise(setImmediate);
    expect((await http.call(url)).text).toBe("old");
  });

  it("is written and appended to under the conditions of the headers or the query", async () => {
    const url = `${base}conditional`;
    const send = async (body: string, headers: Record<string, string>, query = "") =>
      await http.call(`${url}${query}`, { method: "PUT", body, headers });
    const { etag } = (await send("one", { "if-none-match": "*" })).json as { etag: string };
    expect(await send("x", { "if-none-match": "*" })).toMatchObject({
      status: 409,
      json: { error_code: "FILE_EXISTS" },
    });
    expect((await http.call(url, { method: "HEAD" })).headers.get("etag")).toBe(`"${etag}"`);
    const second = await send("two", { "if-match": `"${etag}"` });
    expect(second.status).toBe(200);
    for (const late of [
      await send("x", { "if-match": `"${etag}"` }),
      await send("x", {}, `&if_match=${etag}`),
      await send("x", {}, `&append=true&if_match=${etag}`),
    ])
      expect(late).toMatchObject({ status: 412, json: { error_code: "FILE_CHANGED" } });
    expect((await send("+", {}, "&append=1")).json).toMatchObject({ size: 4 });
    expect((await http.call(url)).text).toBe("two+");
    for (const [headers, query] of [
      [{ "if-match": "*" }, ""],
      [{ "if-match": '"a", "b"' }, ""],
      [{ "if-none-match": '"a"' }, ""],
      [{}, "&append=true&overwrite=false"],
    ] as const)
      expect((await send("x", headers, query)).status).toBe(400);
  });

  it("breaks off if it is shorter than announced, and is never longer", async () => {
    const lying = (size: number, bytes: string) =>
      HttpFixture.start({
        replace: {
          files: {
            async open(...args) {
              const files = await this.open!(...args);
              return overriding(files, {
                readFile: () =>
                  Promise.resolve({
                    size,
                    mode: 0o644,
                    mtimeMs: 0,
                    version: "v",
                    body: new Blob([bytes]).stream(),
                  }),
              });
            },
          },
        },
      });
    await using shrunk = await lying(10, "1234");
    const path = `/v1/sessions/${await shrunk.createSession()}/fs/file?path=x`;
    await expect(shrunk.call(path)).rejects.toThrow();
    await using emptied = await lying(10, "");
    expect(
      await emptied.call(`/v1/sessions/${await emptied.createSession()}/fs/file?path=x`),
    ).toMatchObject({ status: 409, json: { error_code: "CONFLICT" } });
    await using grown = await lying(4, "1234567890");
    const answer = await grown.exchange(
      `GET /v1/sessions/${await grown.createSession()}/fs/file?path=x HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${ALICES_KEY}\r\nConnection: close\r\n\r\n`,
    );
    expect(answer.split("\r\n\r\n")[1]).toBe("1234");
  });

  it.each([
    ["file", 10],
    ["tar", undefined],
  ])(
    "fails with an error, not a broken connection, before the first bytes of a %s",
    async (kind, size) => {
      const failing = (pieces: readonly string[]) => {
        const body = (): ReadableStream<Uint8Array> => {
          const left = [...pieces];
          return new ReadableStream({
            type: "bytes",
            pull(controller) {
              const piece = left.shift();
              if (piece === undefined)
                controller.error(new SandboxError("SANDBOX_UNREACHABLE", "the sandbox is gone"));
              else controller.enqueue(new TextEncoder().encode(piece));
            },
          });
        };
        return HttpFixture.start({
          replace: {
            files: {
              async open(...args) {
                const files = await this.open!(...args);
                return overriding(files, {
                  readFile: () =>
                    Promise.resolve({
                      size: size ?? 0,
                      mode: 0o644,
                      mtimeMs: 0,
                      version: "v",
                      body: body(),
                    }),
                  createTar: () =>
                    Promise.resolve({ unreadable: 0, unreadablePaths: [], body: body() }),
                });
              },
            },
          },
        });
      };
      await using early = await failing([]);
      const path = `fs/${kind}?path=x`;
      expect(await early.call(`/v1/sessions/${await early.createSession()}/${path}`)).toMatchObject(
        {
          status: 503,
          json: { error_code: "SANDBOX_UNREACHABLE", message: "the sandbox is gone" },
        },
      );
      await using late = await failing(["1234"]);
      const answer = await late.fetch(`/v1/sessions/${await late.createSession()}/${path}`);
      expect(answer.status).toBe(200);
      await expect(answer.text()).rejects.toThrow();
    },
  );

  it("has no header that a page of an allowed origin cannot read", async () => {
    const origin = "https://app.example";
    const content = { size: 1, mode: 0o644, mtimeMs: 0, version: "v" };
    const body = (): ReadableStream<Uint8Array> => new Blob(["x"]).stream();
    await using own = await HttpFixture.start({
      allowedOrigins: [origin],
      replace: {
        files: {
          async open(...args) {
            const path = { path: "/workspace/x" };
            return overriding(await this.open!(...args), {
              readFile: () => Promise.resolve({ ...content, realPath: path, body: body() }),
              createTar: () =>
                Promise.resolve({ unreadable: 1, unreadablePaths: [path], body: body() }),
            });
          },
        },
      },
    });
    const fs = `/v1/sessions/${await own.createSession()}/fs`;
    // What browsers always show, what is about the connection, and what no client needs.
    const others =
      /^(?:access-control-.*|cache-control|content-(?:length|type)|connection|date|keep-alive|transfer-encoding|vary|x-content-type-options)$/;
    for (const [path, expected] of [
      ["file?path=x&real_path=1", "x-sandkasten-real-path"],
      ["tar?on_unreadable=skip&new=1", "x-sandkasten-unreadable-paths"],
    ] as const) {
      const { headers } = await own.call(`${fs}/${path}`, { headers: { origin } });
      const shown = headers.get("access-control-expose-headers")?.toLowerCase().split(", ");
      const sent = [...headers.keys()].filter((name) => !others.test(name));
      expect(sent).toContain(expected);
      expect(shown).toEqual(expect.arrayContaining(sent));
    }
  });

  it("is not buffered for a client that reads nothing", async () => {
    const limits = { maxBodyBytes: 4_194_304, maxUploadBytes: 64_000_000 };
    await using own = await HttpFixture.start({ stallTimeoutMs: 200, limits });
    const session = await own.createSession();
    const url = `/v1/sessions/${session}/fs/file?path=big`;
    // More than the kernel buffers for a connection without a reader.
    await own.call(url, { method: "PUT", body: Buffer.alloc(48_000_000) });
    const socket = await own.connect();
    socket.pause();
    socket.write(
      `GET ${url} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${ALICES_KEY}\r\nX-Request-ID: lazy\r\n\r\n`,
    );
    while (!own.logLines.some((line) => line.includes('"lazy"') && line.includes("cut_off")))
      await new Promise(setImmediate);
    expect((await textUntilClose(socket.resume())).length).toBeLessThan(48_000_000);
  });
});
