import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { HttpFixture } from "../testing/http-fixture.ts";

let directory: string;
let http: HttpFixture;
beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), "sandkasten-site-"));
  for (const name of ["docs", "guide"]) {
    await mkdir(join(directory, name));
    await writeFile(join(directory, name, "index.html"), `<p>${name}</p>`);
  }
  await writeFile(join(directory, "guide/page.js"), "let page;");
  await writeFile(join(directory, "guide/page.js.gz"), gzipSync("let page;"));
  await writeFile(join(directory, "guide/.stamp"), "built");
  await writeFile(join(directory, "secret"), "secret");
  http = await HttpFixture.start({ siteDir: directory });
});
afterAll(async () => {
  await http[Symbol.asyncDispose]();
  await rm(directory, { recursive: true, force: true });
});

/** Sent unchanged; `fetch` would resolve the dots itself. */
async function get(path: string, headers = ""): Promise<string> {
  return await http.exchange(
    `GET ${path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n${headers}\r\n`,
  );
}

describe("files of the site", () => {
  it("are served without a key, with a policy and a type", async () => {
    for (const name of ["docs", "guide"]) {
      const { status, text, headers } = await http.call(`/${name}/`, { key: null });
      expect([status, text]).toEqual([200, `<p>${name}</p>`]);
      expect(headers.get("content-type")).toBe("text/html; charset=utf-8");
      expect(headers.get("x-content-type-options")).toBe("nosniff");
      const policy = headers.get("content-security-policy") ?? "";
      expect(policy).toContain("default-src 'none'; script-src 'self'; ");
      expect(policy).toContain("frame-ancestors 'none'");
      expect(policy).not.toContain("unsafe-eval");
      expect(policy).not.toContain("unsafe-inline");
      const short = await fetch(`${http.url}/${name}`, { redirect: "manual" });
      expect([short.status, short.headers.get("location")]).toEqual([302, `/${name}/`]);
    }
  });

  it("are requested again only if they have changed, and are sent compressed", async () => {
    const first = await fetch(`${http.url}/guide/page.js`);
    expect(first.headers.get("content-encoding")).toBe("gzip");
    expect(await first.text()).toBe("let page;");
    expect(first.headers.get("cache-control")).toBe("public, max-age=0");
    const etag = first.headers.get("etag") ?? "";
    const again = await get(
      "/guide/page.js",
      `Accept-Encoding: gzip\r\nIf-None-Match: ${etag}\r\n`,
    );
    expect(again).toMatch(/^HTTP\/1\.1 304 /);
    const plain = await get("/guide/page.js");
    expect(plain).toMatch(/\r\n\r\nlet page;$/);
    expect(plain).not.toContain("content-encoding");
  });

  it.each([
    "/guide/../secret",
    "/guide/%2e%2e/secret",
    "/guide/..%2fsecret",
    "/guide/%2e%2e%2fsecret",
    "/guide/..%5csecret",
    "/guide/.stamp",
    "/guide/%2estamp",
    "/guide//etc/passwd",
    "/guide/%00",
    "/guide/docs",
    "/guide/",
  ])("cannot be used to reach other files: %s", async (path) => {
    const answer = await get(path);
    expect(answer).not.toMatch(/\r\n\r\n.*(?:secret|built|root:)/s);
    const isPage = path === "/guide/";
    expect(answer.startsWith("HTTP/1.1 200")).toBe(isPage);
  });

  it("that do not exist return an error in the API's format", async () => {
    const { status, json } = await http.call("/guide/missing.html", { key: null });
    expect([status, json]).toMatchObject([404, { error_code: "ROUTE_NOT_FOUND" }]);
  });

  it("cannot be written", async () => {
    for (const method of ["POST", "PUT", "DELETE"])
      expect((await http.call("/guide/page.js", { method })).status).toBe(404);
  });
});
