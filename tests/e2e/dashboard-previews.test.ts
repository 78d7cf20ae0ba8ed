/** A page from a sandbox attacks, in a browser where a user is signed in to the dashboard. */
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { SandboxClient, type Session } from "@sandkasten/sdk";
import type { Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { TestBrowser, type TestPage } from "../support/browser.ts";
import { eventually, signIn } from "../support/dashboard-page.ts";
import { TestDaemon } from "../support/test-daemon.ts";

const FILES = join(import.meta.dirname, "../support/hostile-page");
const PORT = 8000;

type Report = Readonly<Record<string, unknown>>;

const opened = new AsyncDisposableStack();
let daemon: TestDaemon;
let client: SandboxClient;
let session: Session;
let tab: TestPage;
let page: Page;

beforeAll(async () => {
  daemon = opened.use(await TestDaemon.start());
  client = new SandboxClient({ baseUrl: daemon.url, apiKey: daemon.apiKey });
  session = await client.createSession();
  for (const name of ["server.py", "page.html", "attack.js"])
    await session.write(name, await readFile(join(FILES, name)));
  await session.start(["/usr/bin/python3", "server.py"]);
  while ((await session.ports()).length === 0)
    await new Promise((resolve) => setTimeout(resolve, 20));
  const browser = opened.use(await TestBrowser.start());
  tab = await browser.page();
  ({ page } = tab);
  await signIn(page, daemon);
});
afterAll(() => opened.disposeAsync());

/** The page's n-th report. */
async function reportOf(index: number): Promise<Report> {
  const read = async (): Promise<string> =>
    await session.readText(`report-${index}.json`).catch(() => "");
  await eventually(read).not.toBe("");
  return JSON.parse(await read()) as Report;
}

/** What a page gets if it may not read a response, whatever the response is. */
const UNREADABLE = /^(?:opaque|refused)$/;

/** A browser may deny a frame any storage. */
const NOTHING = /^(?:\[\]|refused)$/;

/**
 * Everything that a page of a foreign origin tries fails; requests whose responses it cannot read
 * have no effect.
 */
const FAILED = {
  "reads the dashboard's page": "refused",
  "reads the dashboard's storage": "refused",
  "lists sessions": "refused",
  "lists sessions without being able to look": expect.stringMatching(UNREADABLE) as string,
  "creates a session": "refused",
  "creates a session blindly": expect.stringMatching(UNREADABLE) as string,
  "opens a terminal": "refused",
  "frames the dashboard": "refused",
  "sends the tab elsewhere": "refused",
};

/** Chromium shows this in place of a page that does not allow framing. */
const BLOCKED = "chrome-error://chromewebdata/";

/** The page's attempt to frame the dashboard: what it can read of the frame reveals nothing. */
function expectNoDashboardFramed(of: Page): void {
  const framed = of.frames().filter((frame) => frame !== of.mainFrame());
  const urls = framed.map((frame) => frame.url());
  expect(urls).toContain(BLOCKED);
  expect(urls).not.toContain(`${daemon.url}/`);
}

async function expectNothingHappened(): Promise<void> {
  const sessions = await Array.fromAsync(client.sessions());
  expect(sessions.map(({ id, status }) => [id, status])).toEqual([[session.id, "running"]]);
  const execs = await Array.fromAsync(session.execs());
  expect(execs.filter(({ cmd }) => cmd === "login shell")).toEqual([]);
}

describe("a page from a sandbox", () => {
  it("in a frame of the dashboard can neither read the key nor use the API", async () => {
    await page.goto(`${daemon.url}/#/sessions/${session.id}/ports`);
    await page.getByRole("button", { name: "Preview" }).click();
    const frame = page.frameLocator("iframe.preview");
    await frame.getByRole("heading", { name: "Hello from the sandbox" }).waitFor();
    const report = await reportOf(0);
    expect(report).toMatchObject({
      ...FAILED,
      // It has a separate origin with separate storage: not even its link's cookie is visible.
      "reads storage of its own address": expect.stringMatching(NOTHING) as string,
      "reads session storage of its own address": expect.stringMatching(NOTHING) as string,
      "reads cookies": "",
    });
    expectNoDashboardFramed(page);
    expect(page.url()).toContain("#/sessions/");
    expect(await page.getByRole("heading", { name: session.id }).count()).toBe(1);
    await expectNothingHappened();
  });

  it("at the dashboard's own address has no origin, and so no access either", async () => {
    const token = new URL(await session.url(PORT)).searchParams.get("sandkasten_token") ?? "";
    const visitor = await page.context().newPage();
    await visitor.goto(`${daemon.url}/v1/sessions/${session.id}/proxy/${PORT}~${token}/`);
    const report = await reportOf(1);
    expect(await visitor.evaluate("origin")).toBe("null");
    expect(report).toMatchObject({
      ...FAILED,
      "reads storage of its own address": "refused",
      "reads session storage of its own address": "refused",
      "reads cookies": "refused",
      "registers a service worker": "refused",
    });
    expectNoDashboardFramed(visitor);
    await expectNothingHappened();
    await visitor.close();
  });

  it("finds the key only in the dashboard's memory", async () => {
    const state = JSON.stringify(await page.context().storageState({ indexedDB: true }));
    expect(state).not.toContain(daemon.apiKey);
    expect(JSON.stringify(await page.evaluate("({ ...sessionStorage })"))).not.toContain(
      daemon.apiKey,
    );
    const cookies = await page.context().cookies(daemon.url);
    expect(cookies).toEqual([]);
    expect(page.url()).not.toContain(daemon.apiKey);
    // Gone with the page: after a reload the user must sign in again.
    await page.reload();
    await page.getByLabel("API key").waitFor();
  });
});
