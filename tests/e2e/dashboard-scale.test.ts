/** Much to show: the dashboard with hundreds of sessions, and with a terminal that floods. */
import { join } from "node:path";
import { DatabaseSync, type SQLInputValue } from "node:sqlite";
import { SandboxClient } from "@sandkasten/sdk";
import type { CDPSession, Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { TestBrowser, type TestPage } from "../support/browser.ts";
import { eventually, screenOf, signIn } from "../support/dashboard-page.ts";
import { TestDaemon } from "../support/test-daemon.ts";

const SESSIONS = 500;
const FLOOD_BYTES = 50 * 2 ** 20;

const opened = new AsyncDisposableStack();
let daemon: TestDaemon;
let client: SandboxClient;
let tab: TestPage;
let page: Page;
let devtools: CDPSession;

beforeAll(async () => {
  daemon = opened.use(await TestDaemon.start());
  client = new SandboxClient({ baseUrl: daemon.url, apiKey: daemon.apiKey });
  const ended = await client.createSession();
  await ended.destroy();
  copySession(ended.id, SESSIONS - 1);
  const browser = opened.use(await TestBrowser.start());
  tab = await browser.page({ viewport: { width: 1280, height: 800 } });
  ({ page } = tab);
  devtools = await page.context().newCDPSession(page);
  await devtools.send("Performance.enable");
  await signIn(page, daemon);
});
afterAll(() => opened.disposeAsync());

/** Rows of sessions that ended, as if there had been so many. */
function copySession(id: string, count: number): void {
  using database = new DatabaseSync(join(daemon.dataDir, "sandkasten.db"));
  const row = database.prepare("SELECT * FROM sessions WHERE id = ?").get(id) ?? {};
  const names = Object.keys(row);
  const insert = database.prepare(
    `INSERT INTO sessions (${names.join(", ")}) VALUES (${names.map(() => "?").join(", ")})`,
  );
  for (let index = 0; index < count; index++) {
    const copy: Record<string, SQLInputValue> = {
      ...row,
      id: `ses_${index.toString(16).padStart(24, "0")}`,
      created_at_ms: Number(row["created_at_ms"]) - index * 1000,
      ...("idempotency_key" in row && { idempotency_key: null }),
    };
    insert.run(...names.map((name) => copy[name] ?? null));
  }
}

/** How long the page's main thread has been busy, in seconds. */
async function busySeconds(): Promise<number> {
  const { metrics } = await devtools.send("Performance.getMetrics");
  return metrics.find(({ name }) => name === "TaskDuration")?.value ?? Number.NaN;
}

/** What one frame of scrolling costs, in seconds of the main thread. */
async function costOfScrolling(frames: number): Promise<number> {
  const before = await busySeconds();
  await page.evaluate(`(async () => {
    const body = document.querySelector(".table-body");
    for (let frame = 0; frame < ${frames}; frame++) {
      body.scrollTop = (frame * 170) % (body.scrollHeight - body.clientHeight);
      await new Promise(requestAnimationFrame);
    }
  })()`);
  return ((await busySeconds()) - before) / frames;
}

describe("the dashboard", () => {
  it(`scrolls through ${SESSIONS} sessions as easily as through few`, async () => {
    await page.getByRole("button", { name: /^All/ }).click();
    await eventually(() => page.getByRole("button", { name: /^All/ }).textContent()).toBe(
      `All ${SESSIONS}`,
    );
    const rows = page.locator(".table-row");
    expect(await rows.count()).toBeLessThan(60);
    await costOfScrolling(60);
    const many = await costOfScrolling(120);
    await page.getByRole("searchbox").fill("ses_00000000000000000000004");
    await eventually(() => rows.count()).toBe(16);
    const list = page.locator(".table-body");
    await list.evaluate("(body) => { body.style.maxHeight = '300px'; }");
    await costOfScrolling(60);
    const few = await costOfScrolling(120);
    // Without rows that come and go this is a factor of ten and more.
    expect(many / few).toBeLessThan(5);
    await page.getByRole("searchbox").fill("");
    await list.evaluate(
      "(body) => { body.style.maxHeight = ''; body.scrollTop = body.scrollHeight; }",
    );
    await page
      .getByRole("row", { name: /ses_00000000…/ })
      .last()
      .waitFor();
    expect(await rows.last().getAttribute("aria-rowindex")).toBe(String(SESSIONS + 1));
  });

  it("stays alive while a terminal prints 50 MB, and shows the end of them", async () => {
    const session = await client.createSession();
    await page.goto(`${daemon.url}/#/sessions/${session.id}`);
    await page.getByLabel(/^Terminal in/).waitFor();
    await page.keyboard.type("echo ready$((1))\n");
    await eventually(() => screenOf(page).textContent()).toContain("ready1");
    await page.evaluate(`globalThis.frames = [];
      (function frame(at) { globalThis.frames.push(at); requestAnimationFrame(frame); })(performance.now())`);
    const framesPerSecond = async (during: () => Promise<void>): Promise<number> => {
      const begin = await page.evaluate<number>("(frames.length = 0, performance.now())");
      await during();
      return await page.evaluate<number>(`frames.length / ((performance.now() - ${begin}) / 1000)`);
    };
    const idle = await framesPerSecond(() => page.waitForTimeout(1000));
    const flooded = await framesPerSecond(async () => {
      await page.keyboard.type(
        `head -c ${FLOOD_BYTES} /dev/zero | tr '\\\\0' x | fold -w 99; echo over$((1))\n`,
      );
      await expect
        .poll(() => screenOf(page).textContent(), { timeout: 90_000, interval: 200 })
        .toContain("over1");
    });
    // The flood came, through this terminal.
    const [shell] = await Array.fromAsync(session.execs());
    expect(shell?.outputBytes).toBeGreaterThan(FLOOD_BYTES);
    expect(flooded / idle).toBeGreaterThan(0.1);
    await page.keyboard.type("echo typed$((1))\n");
    await eventually(() => screenOf(page).textContent()).toContain("typed1");
  });

  it("takes Ctrl-C while a terminal floods without end", async () => {
    await page.keyboard.type("yes flood without end\n");
    await eventually(() => screenOf(page).textContent()).toMatch(/(?:flood without end\s*){20}/);
    await page.waitForTimeout(1000);
    await page.keyboard.press("Control+C");
    await page.keyboard.type("echo interrupted$((1))\n");
    await expect
      .poll(() => screenOf(page).textContent(), { timeout: 60_000, interval: 200 })
      .toContain("interrupted1");
    expect(tab.problems).toEqual([]);
  });
});
