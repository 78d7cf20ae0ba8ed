/** The SDK in a real browser: a web page of an allowed origin against a real daemon. */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { BrowserSite, type Report } from "../../packages/sdk/src/testing/browser-site.ts";
import { Chromium } from "../support/chromium.ts";
import { TestDaemon } from "../support/test-daemon.ts";

describe("the SDK in a browser", () => {
  const opened = new AsyncDisposableStack();
  let daemon: TestDaemon;
  let report: Report;
  let foreignReport: Report;
  beforeAll(async () => {
    const site = opened.use(await BrowserSite.start());
    const settings = { HTTP_ALLOWED_ORIGINS: site.origin };
    daemon = opened.use(await TestDaemon.start({ settings }));
    site.use(daemon);
    const browser = opened.use(await Chromium.open(site.origin));
    [report, foreignReport] = await Promise.race([
      Promise.all([site.report, site.foreignReport]),
      browser.failed,
    ]);
  });
  afterAll(() => opened.disposeAsync());

  it("streams the output of a command while it runs", () => {
    expect(report).not.toHaveProperty("failure");
    expect(report["userAgent"]).toContain("Chrome/");
    expect(report["health"]).toEqual({ status: "ok" });
    expect(report).toMatchObject({ output: ["stdout one\n", "stderr two\n"], exitCode: 0 });
  });

  it("writes a file from a stream and reads it back, byte for byte", () => {
    expect(report).toMatchObject({
      written: { path: "/workspace/a b&ü.bin", sizeBytes: 300_000 },
      read: 300_000,
      differing: 0,
    });
  });

  it("types into a terminal over a WebSocket", () => {
    expect(report["screen"]).toContain("40 132");
    expect(report["ptyExitCode"]).toBe(5);
  });

  it("gets the daemon's refusals as typed errors", () => {
    expect(report["missing"]).toEqual({ code: "FILE_NOT_FOUND", status: 404, hasRequestId: true });
    expect(report["late"]).toEqual({
      code: "COMMAND_TIMEOUT",
      status: 504,
      hasRequestId: true,
      output: "part\n",
    });
  });

  it("gets nothing on a page of another origin", async () => {
    expect(foreignReport).toMatchObject({ failure: { code: "CONNECTION_FAILED", status: 0 } });
    const { body } = await daemon.call<readonly { readonly status: string }[]>(
      "GET",
      "/v1/sessions",
    );
    expect(body.map(({ status }) => status)).toEqual(["destroyed"]);
  });
});
