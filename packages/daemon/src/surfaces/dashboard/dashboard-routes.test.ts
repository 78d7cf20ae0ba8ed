import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { brotliCompressSync, gzipSync } from "node:zlib";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { HttpFixture } from "../testing/http-fixture.ts";

const SCRIPT = "console.log('dashboard');\n".repeat(50);
const opened = new AsyncDisposableStack();
let directory: string;
let http: HttpFixture;
beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), "sandkasten-dashboard-"));
  opened.defer(() => rm(directory, { recursive: true, force: true }));
  http = opened.use(await HttpFixture.start({ dashboard: { directory, agents: {} } }));
});
afterAll(() => opened.disposeAsync());

async function build(): Promise<void> {
  await mkdir(join(directory, "assets"), { recursive: true });
  await writeFile(join(directory, "built-from"), "secret of the build");
  await writeFile(join(directory, "assets", "main-1.js"), SCRIPT);
  await writeFile(join(directory, "assets", "main-1.js.br"), brotliCompressSync(SCRIPT));
  await writeFile(join(directory, "assets", "main-1.js.gz"), gzipSync(SCRIPT));
  await writeFile(join(directory, "index.html"), "<!doctype html><title>Dashboard</title>");
}

const open = (path: string, headers: Record<string, string> = {}) =>
  http.call(path, { key: null, headers });

describe("the dashboard's files", () => {
  it("are reported missing with how to build them, and found once they exist", async () => {
    const missing = await open("/");
    expect([missing.status, missing.text]).toEqual([503, expect.stringContaining("npm run setup")]);
    expect(missing.text.trim().split("\n")).toHaveLength(1);
    await build();
    const page = await open("/");
    expect([page.status, page.headers.get("content-type")]).toEqual([
      200,
      "text/html; charset=utf-8",
    ]);
    expect(page.text).toContain("Dashboard");
  });

  it("come with a policy that allows no inline code or styles, and no framing", async () => {
    const { headers } = await open("/");
    const policy = headers.get("content-security-policy") ?? "";
    expect(policy).toContain("default-src 'none'");
    expect(policy).toMatch(/script-src 'self';/);
    expect(policy).toMatch(/style-src 'self';/);
    expect(policy).toContain("connect-src 'self'");
    expect(policy).toContain("frame-ancestors 'none'");
    expect(policy).not.toMatch(/unsafe|https?:\/\/\*[ ;]/);
    expect(headers.get("cross-origin-opener-policy")).toBe("same-origin");
    expect(headers.get("set-cookie")).toBeNull();
  });

  it("are cached by browsers: pages after revalidation, files with hashed names without", async () => {
    const page = await open("/");
    expect(page.headers.get("cache-control")).toBe("no-cache");
    const again = await open("/", { "if-none-match": page.headers.get("etag") ?? "" });
    expect([again.status, again.text]).toEqual([304, ""]);
    const script = await open("/assets/main-1.js");
    expect(script.headers.get("cache-control")).toContain("immutable");
    expect(script.headers.get("vary")).toBe("Accept-Encoding");
  });

  it.each([
    ["gzip, deflate, br", "br"],
    ["gzip", "gzip"],
    ["br;q=0, gzip;q=0.5", "gzip"],
    ["identity", null],
  ])("are sent in an encoding that the browser accepts: %s", async (accepted, encoding) => {
    const script = await open("/assets/main-1.js", { "accept-encoding": accepted });
    expect([script.headers.get("content-encoding"), script.text]).toEqual([encoding, SCRIPT]);
  });

  it("are all that is served without a key", async () => {
    for (const path of [
      "/assets/",
      "/assets/index.html",
      "/assets/main-1.js.br",
      "/assets/..%2fbuilt-from",
      "/assets/%2e%2e%2fbuilt-from",
      "/assets/built-from",
      "/built-from",
    ]) {
      const { status, text } = await open(path);
      expect([path, [401, 404].includes(status), text.includes("secret")]).toEqual([
        path,
        true,
        false,
      ]);
    }
    for (const path of ["/v1/sessions", "/v1/agent-service", "/v1/agent-service/v1/runs"])
      expect([path, (await open(path)).status]).toEqual([path, 401]);
    expect((await http.call("/", { key: null, method: "POST", body: {} })).status).toBe(401);
  });
});
