/** The daemon's pages in a real browser: the API reference at /docs and the guide at /guide. */
import { chromium } from "playwright-core";
import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, expect, test } from "vitest";
import { TestDaemon } from "../support/test-daemon.ts";

let daemon: TestDaemon;
let browser: Browser;
beforeAll(async () => {
  daemon = await TestDaemon.start();
  // Its own sandbox does not work for root, and it only shows pages of the daemon.
  browser = await chromium.launch({ executablePath: "/usr/bin/chromium", args: ["--no-sandbox"] });
});
afterAll(async () => {
  await browser?.close();
  await daemon?.[Symbol.asyncDispose]();
});

interface Visit {
  readonly page: Page;
  /** Errors in the page, and requests that left the daemon's origin. */
  readonly problems: readonly string[];
}

async function visit(path: string): Promise<Visit> {
  const context = await browser.newContext();
  const page = await context.newPage();
  page.setDefaultTimeout(60_000);
  const problems: string[] = [];
  page.on("pageerror", (error) => problems.push(`error: ${error.message}`));
  page.on("console", (message) => {
    // Also says which directive of the policy something violates.
    if (message.type() === "error") problems.push(`console: ${message.text()}`);
  });
  await context.route("**", async (route) => {
    const url = route.request().url();
    if (!url.startsWith(`${daemon.url}/`) && !/^(?:data|blob):/.test(url))
      problems.push(`request: ${url}`);
    await route.continue();
  });
  await page.goto(`${daemon.url}${path}`);
  return { page, problems };
}

test("the API reference shows samples and sends requests with the key, which it does not keep", async () => {
  const { page, problems } = await visit("/docs#tag/sessions/POST/v1/sessions");
  const send = page.getByRole("button", { name: "Test Request (post /v1/sessions)" });
  await send.waitFor();
  const operation = page.locator("section", { has: send }).last();
  await expect.poll(async () => await operation.innerText()).toContain("curl");
  await operation.getByRole("button", { name: "curl", exact: true }).click();
  await page.getByRole("option", { name: "TypeScript" }).click();
  await expect.poll(async () => await operation.innerText()).toContain("client.createSession(");

  await page.getByPlaceholder("Token").first().fill(daemon.apiKey);
  await send.click();
  await page.getByRole("dialog").getByRole("button", { name: /^Send/ }).first().click();
  await expect
    .poll(async () => await daemon.call<readonly unknown[]>("GET", "/v1/sessions"))
    .toMatchObject({ body: [{ ttl_seconds: 600 }] });

  const kept = await page.evaluate(async () => {
    const { localStorage, sessionStorage, document, indexedDB } = globalThis as unknown as Storages;
    const databases = await indexedDB.databases();
    return JSON.stringify([{ ...localStorage }, { ...sessionStorage }, document.cookie, databases]);
  });
  expect(kept).not.toContain(daemon.apiKey);
  expect(problems).toEqual([]);
});

/** Where a page could store a key. */
interface Storages {
  readonly localStorage: object;
  readonly sessionStorage: object;
  readonly document: { readonly cookie: string };
  readonly indexedDB: { databases(): Promise<readonly unknown[]> };
}

test("the guide finds a word, and its result leads to the place", async () => {
  const { page, problems } = await visit("/guide");
  await page.keyboard.press("/");
  await page.keyboard.type("idempotency");
  const results = page.locator("#results a");
  await results.first().waitFor();
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("Enter");
  await page.waitForURL(/\/guide\/.+\.html/);
  expect((await page.locator("main").innerText()).toLowerCase()).toContain("idempotency");
  expect(problems).toEqual([]);
});

test("the pages notice what their policy forbids", async () => {
  const { page, problems } = await visit("/guide");
  await page.evaluate(
    "const s = document.createElement('script'); s.textContent = 'globalThis.ran = 1'; document.head.append(s)",
  );
  expect(await page.evaluate("globalThis.ran")).toBeUndefined();
  expect(await page.evaluate("fetch('http://127.0.0.1:1/').catch(() => 'refused')")).toBe(
    "refused",
  );
  const forbidden = problems.join("\n");
  expect(forbidden).toContain(
    "violates the following Content Security Policy directive 'script-src",
  );
  expect(forbidden).toContain(
    'violates the following Content Security Policy directive: "connect-src',
  );
});
