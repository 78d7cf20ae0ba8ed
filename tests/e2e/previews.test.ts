/** Previews and connections of a real sandbox: through a real daemon, and in a real browser. */
import { createHash } from "node:crypto";
import { once } from "node:events";
import { readFile } from "node:fs/promises";
import { request as httpRequest } from "node:http";
import type { IncomingMessage } from "node:http";
import { join } from "node:path";
import { SandboxClient } from "@sandkasten/sdk";
import type { Session } from "@sandkasten/sdk";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { Chromium } from "../support/chromium.ts";
import { TestDaemon } from "../support/test-daemon.ts";

const FILES = join(import.meta.dirname, "../support/dev-server");
const PORT = 8000;
const STREAM_BYTES = 160 * 2 ** 20;

let daemon: TestDaemon;
let client: SandboxClient;
let session: Session;
beforeAll(async () => {
  daemon = await TestDaemon.start();
  client = new SandboxClient({ baseUrl: daemon.url, apiKey: daemon.apiKey });
  session = await client.createSession();
  for (const name of ["server.py", "page.html", "page.js"])
    await session.write(name, await readFile(join(FILES, name)));
  await session.start(["/usr/bin/python3", "server.py", String(PORT), "127.0.0.1"], {
    env: { STREAM_BYTES: String(STREAM_BYTES) },
  });
  const servesV6 = "/usr/bin/python3 -m http.server --bind ::1 8001 >/dev/null 2>&1 &";
  await session.exec(servesV6);
  const listening = async (): Promise<number> => (await session.ports()).length;
  while ((await listening()) < 2) await new Promise((resolve) => setTimeout(resolve, 20));
});
afterAll(async () => await daemon[Symbol.asyncDispose]());

/** A request to a preview URL; only a browser resolves names below `localhost`. */
async function open(
  url: string,
  { method = "GET", body }: { readonly method?: string; readonly body?: Uint8Array } = {},
): Promise<IncomingMessage> {
  const { port, host, pathname, search } = new URL(url);
  const path = pathname + search;
  const request = httpRequest({ host: "127.0.0.1", port, method, path, headers: { host } });
  request.end(body);
  const [response] = (await once(request, "response")) as [IncomingMessage];
  return response;
}

async function textOf(response: IncomingMessage): Promise<string> {
  return Buffer.concat(await Array.fromAsync(response as AsyncIterable<Buffer>)).toString();
}

async function at(path: string): Promise<string> {
  const url = new URL(await session.url(PORT));
  url.pathname = path;
  return url.href;
}

async function residentBytes(): Promise<number> {
  const status = await readFile(`/proc/${daemon.pid}/status`, "utf8");
  return Number(/^VmRSS:\s+(\d+)/m.exec(status)?.[1]) * 1024;
}

describe("a port of a sandbox", () => {
  it("is listed with its process, for every loopback address", async () => {
    expect(await session.ports()).toEqual([
      { port: PORT, address: "127.0.0.1", pid: expect.any(Number) as number, process: "python3" },
      { port: 8001, address: "::1", pid: expect.any(Number) as number, process: "python3" },
    ]);
    const response = await open(await session.url(8001));
    expect([response.statusCode, (await textOf(response)).includes("page.html")]).toEqual([
      200,
      true,
    ]);
  });

  it("accepts uploads and sends downloads without holding them in memory", async () => {
    const body = Buffer.alloc(32 * 2 ** 20, "uploaded ");
    const digest = createHash("sha256").update(body).digest("hex");
    expect(await textOf(await open(await at("/put"), { method: "PUT", body }))).toBe(digest);
    const before = await residentBytes();
    const response = await open(await at("/stream"));
    let bytes = 0;
    let most = 0;
    for await (const piece of response as AsyncIterable<Buffer>) {
      bytes += piece.byteLength;
      if (bytes % 2 ** 23 < piece.byteLength) most = Math.max(most, await residentBytes());
    }
    expect(bytes).toBe(STREAM_BYTES);
    expect(most - before).toBeLessThan(80 * 2 ** 20);
  });

  it("serves one visitor while another reads nothing", async () => {
    const idle = await open(await at("/stream"));
    idle.pause();
    for (let count = 0; count < 5; count += 1)
      expect((await open(await at("/page.html"))).resume().statusCode).toBe(200);
    idle.destroy();
  });

  it("can be reached by a connection with another protocol than HTTP", async () => {
    using connection = await session.connect(PORT);
    const writer = connection.writable.getWriter();
    await writer.write(Buffer.from("GET /page.html HTTP/1.0\r\n\r\n"));
    const text = Buffer.concat(await Array.fromAsync(connection.readable)).toString();
    expect(text).toContain("<h1>first</h1>");
    await expect(session.connect(9999)).rejects.toMatchObject({ code: "PORT_REFUSED" });
  });

  it("is closed with its session", async () => {
    const own = await client.createSession();
    await own.exec("/usr/bin/python3 -m http.server --bind 127.0.0.1 8000 >/dev/null 2>&1 &");
    while ((await own.ports()).length === 0)
      await new Promise((resolve) => setTimeout(resolve, 20));
    const url = await own.url(8000);
    const connection = await own.connect(8000);
    expect((await open(url)).resume().statusCode).toBe(200);
    await own.destroy();
    await expect(connection.readable.getReader().read()).rejects.toThrow();
    const after = await open(url);
    expect([after.statusCode, await textOf(after)]).toEqual([
      404,
      expect.stringContaining("SESSION_NOT_FOUND"),
    ]);
  });
});

describe("a preview in a browser", () => {
  interface Seen {
    readonly [name: string]: unknown;
  }

  /** A page's report to the server in the sandbox, once it arrives. */
  async function reportOf(name: string, browser: Chromium): Promise<Seen> {
    const waiting = async (): Promise<string> => {
      for (;;) {
        const { stdout, exitCode } = await session.exec(`cat report-${name} && rm report-${name}`);
        if (exitCode === 0) return stdout;
        await new Promise((resolve) => setTimeout(resolve, 50));
      }
    };
    return JSON.parse(await Promise.race([waiting(), browser.failed])) as Seen;
  }

  it("reloads automatically when a file changes, in a separate origin that reaches nothing else", async () => {
    const link = new URL(await session.url(PORT));
    const token = link.searchParams.get("sandkasten_token") ?? "";
    const { host: daemonHost } = new URL(daemon.url);
    const other = link.origin.replace(String(PORT), "8001");
    const visit = (url: URL, name: string): string => {
      for (const [key, value] of Object.entries({ daemon: daemon.url, other, name }))
        url.searchParams.set(key, value);
      return url.href;
    };
    link.pathname = "/page.html";
    const base = `${daemon.url}/v1/sessions/${session.id}/proxy/${PORT}~${token}`;
    // The visitor has the key in the browser, as the password of the daemon's own page.
    await using browser = await Chromium.open(`http://visitor:${daemon.apiKey}@${daemonHost}/docs`);
    await browser.visit(visit(link, "host"));
    await browser.visit(visit(new URL(`${base}/page.html`), "path"));

    const byHost = await reportOf("host", browser);
    expect(byHost).toMatchObject({
      heading: "first",
      origin: link.origin,
      storage: "object",
      // Neither the daemon, through any of its pages, nor another port of the same session.
      api: "TypeError",
      docs: "TypeError",
      otherPort: "TypeError",
      // On its own host, all paths belong to the page.
      ownApi: 404,
    });
    expect(byHost["address"]).not.toContain("sandkasten_token");
    // Scripts cannot see our cookie.
    expect(byHost["cookie"]).not.toContain("sandkasten");

    const byPath = await reportOf("path", browser);
    expect(byPath).toMatchObject({
      heading: "first",
      origin: "null",
      cookie: "SecurityError",
      storage: "SecurityError",
      api: "TypeError",
      docs: "TypeError",
      otherPort: "TypeError",
      ownApi: "TypeError",
    });
    expect(byPath["worker"]).toMatch(/Error$/);

    await session.write(
      "page.html",
      (await session.readText("page.html")).replace("first", "second"),
    );
    for (const name of ["host", "path"])
      expect(await reportOf(name, browser)).toMatchObject({ heading: "second" });
    // None of the pages has created a session.
    const living = await client.listSessions({ status: "running" });
    expect(living.map(({ id }) => id)).toEqual([session.id]);
  });
});
