/** Much data: the dashboard with hundreds of sessions, and with a terminal that floods. */
import { join } from "node:path";
import { DatabaseSync, type SQLInputValue } from "node:sqlite";
import { SandboxClient } from "@sandkasten/sdk";
import type { Page } from "playwright-core";
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

beforeAll(async () => {
  daemon = opened.use(await TestDaemon.start());
  client = new SandboxClient({ baseUrl: daemon.url, apiKey: daemon.apiKey });
  const ended = await client.createSession();
  await ended.destroy();
  // A running daemon locks its database.
  await daemon.kill("SIGTERM");
  copySession(ended.id, SESSIONS - 1);
  await daemon.run();
  client = new SandboxClient({ baseUrl: daemon.url, apiKey: daemon.apiKey });
  const browser = opened.use(await TestBrowser.start());
  tab = await browser.page({ viewport: { width: 1280, height: 800 } });
  ({ page } = tab);
  await signIn(page, daemon);
});
afterAll(() => opened.disposeAsync());

/** Adds rows of ended sessions. */
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

/** The frame rate of the page during an action. */
async function framesPerSecond(during: () => Promise<unknown>): Promise<number> {
  await page.evaluate(`(() => {
    globalThis.drawn = 0;
    globalThis.drawnSince = performance.now();
    if (globalThis.isCounting) return;
    globalThis.isCounting = true;
    const count = () => { globalThis.drawn += 1; requestAnimationFrame(count); };
    requestAnimationFrame(count);
  })()`);
  await during();
  return await page.evaluate<number>("drawn / ((performance.now() - drawnSince) / 1000)");
}

const idle = (): Promise<number> => framesPerSecond(() => page.waitForTimeout(1000));

describe("the dashboard", () => {
  it(`scrolls smoothly through ${SESSIONS} sessions, and draws only the visible ones`, async () => {
    const all = page.getByRole("button", { name: /^All/ });
    await all.click();
    await eventually(() => all.textContent()).toBe(`All ${SESSIONS}`);
    const rows = page.locator(".table-row");
    expect(await rows.count()).toBeLessThan(60);
    const before = await idle();
    const scrolling = await framesPerSecond(() =>
      page.evaluate(`(async () => {
        const body = document.querySelector(".table-body");
        for (let frame = 0; frame < 120; frame++) {
          body.scrollTop = frame * 170;
          await new Promise(requestAnimationFrame);
        }
        body.scrollTop = body.scrollHeight;
      })()`),
    );
    expect(scrolling / before).toBeGreaterThan(0.25);
    await eventually(() => rows.last().getAttribute("aria-rowindex")).toBe(String(SESSIONS + 1));
    expect(await rows.count()).toBeLessThan(60);
    await page.getByRole("searchbox").fill(`ses_${"4".padStart(23, "0")}`);
    await eventually(() => rows.count()).toBe(16);
    await page.getByRole("searchbox").fill("");
  });

  it("stays responsive while a terminal prints 50 MB, and shows their end", async () => {
    const session = await client.createSession();
    await page.goto(`${daemon.url}/#/sessions/${session.id}`);
    await page.getByLabel(/^Terminal in/).waitFor();
    await page.keyboard.type("echo ready$((1))\n");
    await eventually(() => screenOf(page).textContent()).toContain("ready1");
    const before = await idle();
    const flooded = await framesPerSecond(async () => {
      await page.keyboard.type(
        `head -c ${FLOOD_BYTES} /dev/zero | tr '\\0' x | fold -w 99; echo over$((1))\n`,
      );
      await expect
        .poll(() => screenOf(page).textContent(), { timeout: 90_000, interval: 200 })
        .toContain("over1");
    });
    // The flood arrived, through this terminal.
    const [shell] = await Array.fromAsync(session.execs());
    expect((shell?.outputBytes ?? 0) + (shell?.droppedBytes ?? 0)).toBeGreaterThan(FLOOD_BYTES);
    expect(flooded / before).toBeGreaterThan(0.1);
    await page.keyboard.type("echo typed$((1))\n");
    await eventually(() => screenOf(page).textContent()).toContain("typed1");
  });

  it("accepts Ctrl-C while a terminal floods endlessly", async () => {
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
