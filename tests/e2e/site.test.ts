/** The pages of the daemon in a real browser: the API reference at /docs and the guide at /guide. */
import type { BrowserContextOptions, Page } from "playwright-core";
import { afterAll, beforeAll, expect, test } from "vitest";
import { TestBrowser } from "../support/browser.ts";
import { overflowOf, seriousFaults } from "../support/dashboard-page.ts";
import { TestDaemon } from "../support/test-daemon.ts";

const PHONE = {
  viewport: { width: 390, height: 780 },
  colorScheme: "dark",
  hasTouch: true,
  isMobile: true,
} satisfies BrowserContextOptions;

const opened = new AsyncDisposableStack();
let daemon: TestDaemon;
let browser: TestBrowser;
beforeAll(async () => {
  daemon = opened.use(await TestDaemon.start());
  browser = opened.use(await TestBrowser.start());
});
afterAll(() => opened.disposeAsync());

interface Visit {
  readonly page: Page;
  /** Errors in the page, and requests that left the daemon's origin. */
  readonly problems: readonly string[];
}

async function visit(path: string, options: BrowserContextOptions = {}): Promise<Visit> {
  const { page, problems } = await browser.page(options);
  page.setDefaultTimeout(60_000);
  const foreign: string[] = [];
  await page.context().route("**", async (route) => {
    const url = route.request().url();
    if (!url.startsWith(`${daemon.url}/`) && !/^(?:data|blob):/.test(url)) foreign.push(url);
    await route.continue();
  });
  await page.goto(`${daemon.url}${path}`);
  return {
    page,
    get problems() {
      return [...problems, ...foreign];
    },
  };
}

test("the API reference shows samples and sends requests with the key, which it does not store", async () => {
  const visited = await visit("/docs#tag/sessions/POST/v1/sessions");
  const { page } = visited;
  const send = page.getByRole("button", { name: "Test Request (post /v1/sessions)" });
  await send.waitFor();
  const operation = page.locator("section", { has: send }).last();
  const shown = async (): Promise<string> => await operation.innerText();
  await expect.poll(shown).toContain("curl");
  await operation.getByRole("button", { name: "curl", exact: true }).click();
  await page.getByRole("option", { name: "TypeScript" }).click();
  await expect.poll(shown).toContain("client.createSession(");
  await operation.getByRole("button", { name: "TypeScript", exact: true }).click();
  await page.getByRole("option", { name: "Python" }).click();
  await expect.poll(shown).toContain("client.create_session(");

  await page.getByPlaceholder("Token").first().fill(daemon.apiKey);
  await send.click();
  const dialog = page.getByRole("dialog");
  await dialog.getByRole("button", { name: /^Send/ }).first().click();
  await expect
    .poll(async () => await daemon.call<readonly unknown[]>("GET", "/v1/sessions"))
    .toMatchObject({ body: [{ ttl_seconds: 600 }] });
  await dialog.getByText("201 Created").first().waitFor();

  const kept = await page.evaluate(async () => {
    const { localStorage, sessionStorage, document, indexedDB } = globalThis as unknown as Storages;
    const databases = await indexedDB.databases();
    return JSON.stringify([{ ...localStorage }, { ...sessionStorage }, document.cookie, databases]);
  });
  expect(kept).not.toContain(daemon.apiKey);
  expect(visited.problems).toEqual([]);
});

/** Where a page could store a key. */
interface Storages {
  readonly localStorage: object;
  readonly sessionStorage: object;
  readonly document: { readonly cookie: string };
  readonly indexedDB: { databases(): Promise<readonly unknown[]> };
}

test("the API reference has its styles, and fits on a phone in dark mode", async () => {
  const visited = await visit("/docs/", PHONE);
  const { page } = visited;
  await page.getByRole("heading", { name: "Sandkasten", exact: true }).waitFor();
  await page.getByText("Create a session, or return").first().waitFor({ state: "attached" });
  expect(await overflowOf(page)).toBe(0);
  const colours = await page.evaluate(
    "[getComputedStyle(document.body), getComputedStyle(document.querySelector('.bar'))].map(({ backgroundColor }) => backgroundColor)",
  );
  // Scalar's own style of the dark mode, and that of the adjacent bar.
  expect(colours).toEqual(["rgb(15, 15, 15)", "rgb(15, 15, 15)"]);
  expect(visited.problems).toEqual([]);
});

test("the guide finds a word, and its result leads to the section", async () => {
  const visited = await visit("/guide");
  const { page } = visited;
  await page.keyboard.press("/");
  await page.keyboard.type("idempotency");
  const results = page.locator("#results a");
  await results.first().waitFor();
  expect(await seriousFaults(page)).toEqual([]);
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("Enter");
  await page.waitForURL(/\/guide\/.+\.html/);
  expect((await page.locator("main").innerText()).toLowerCase()).toContain("idempotency");
  expect(visited.problems).toEqual([]);
});

test("the guide fits on a phone in dark mode", async () => {
  const visited = await visit("/guide/guides/isolation.html", PHONE);
  const { page } = visited;
  await page.getByRole("heading", { name: "Isolation", exact: true }).waitFor();
  expect(await overflowOf(page)).toBe(0);
  expect(await seriousFaults(page)).toEqual([]);
  await page.getByText("All pages").tap();
  await page.getByRole("link", { name: "Dashboard" }).last().tap();
  await page.getByRole("img", { name: "The list of sessions" }).waitFor();
  expect(await overflowOf(page)).toBe(0);
  expect(visited.problems).toEqual([]);
});

test("the policy of the pages has no exceptions for inline code and styles, and is enforced", async () => {
  for (const path of ["/docs/", "/guide/"]) {
    const { headers } = await fetch(daemon.url + path);
    const policy = headers.get("content-security-policy");
    expect(policy).toMatch(/default-src 'none'; script-src 'self'; style-src 'self';/);
    expect(policy).not.toContain("unsafe");
  }
  const visited = await visit("/docs/");
  const { page } = visited;
  await page.evaluate(`
    const script = document.createElement("script");
    script.textContent = "globalThis.ran = 1";
    document.head.append(script);
    // Injected text would reach the page in the same way.
    document.body.insertAdjacentHTML("beforeend", "<style>.bar { display: none }</style>");
    document.body.insertAdjacentHTML("beforeend", "<p id='styled' style='display: none'>shown</p>");
  `);
  expect(await page.evaluate("globalThis.ran")).toBeUndefined();
  expect(await page.evaluate("fetch('http://127.0.0.1:1/').catch(() => 'refused')")).toBe(
    "refused",
  );
  expect(await page.locator(".bar").isVisible()).toBe(true);
  expect(await page.locator("#styled").isVisible()).toBe(true);
  const forbidden = visited.problems.join("\n");
  for (const directive of ["directive 'script-src", "directive 'style-src", 'directive: "connect'])
    expect(forbidden).toContain(directive);
});
