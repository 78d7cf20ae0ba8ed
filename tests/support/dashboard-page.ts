/** Helpers for tests of the dashboard. */
import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import axe from "axe-core";
import type { Locator, Page } from "playwright-core";
import { expect } from "vitest";
import type { TestDaemon } from "./test-daemon.ts";

/** Set to 1 to retake the screenshots of the guide. */
const takesScreenshots = process.env["SANDKASTEN_SCREENSHOTS"] === "1";
const IMAGES = join(import.meta.dirname, "../../docs/images");

export async function signIn(page: Page, daemon: TestDaemon, key = daemon.apiKey): Promise<void> {
  await page.goto(daemon.url);
  await page.getByLabel("API key").fill(key);
  await page.getByRole("button", { name: "Sign in" }).click();
}

/** Like `expect.poll`, with a timeout for a busy machine. */
export const eventually = <Value>(look: () => Promise<Value>) =>
  // oxlint-disable-next-line vitest/require-awaited-expect-poll -- The caller adds the matcher and awaits it.
  expect.poll(look, { interval: 50 });

/** A terminal's screen. */
export const screenOf = (page: Page): Locator => page.locator(".xterm-rows");

/**
 * @param arrange - Makes the page worth a picture, only when one is taken. What it returns is disposed
 *   of after the picture.
 */
export async function screenshot(
  page: Page,
  name: string,
  arrange?: () => Promise<AsyncDisposable | void>,
): Promise<void> {
  if (!takesScreenshots) return;
  await using _shown = (await arrange?.()) ?? undefined;
  await mkdir(IMAGES, { recursive: true });
  await page.screenshot({ path: join(IMAGES, `${name}.png`), animations: "disabled" });
}

/** Serious accessibility violations, with their elements. */
export async function seriousFaults(page: Page): Promise<readonly string[]> {
  await page.evaluate(axe.source);
  return await page.evaluate(`axe.run(document, { iframes: false }).then(({ violations }) =>
    violations
      .filter(({ impact }) => impact === "serious" || impact === "critical")
      .flatMap(({ id, nodes }) => nodes.map(({ html }) => id + ": " + html.slice(0, 200))))`);
}

/** The number of columns in which a table shows the cells of its first row. */
export const columnsOf = async (page: Page): Promise<number> =>
  await page.evaluate<number>(`new Set(
    [...document.querySelectorAll(".plain-table tbody tr:first-child > *")]
      .map((cell) => Math.round(cell.getBoundingClientRect().left))).size`);

/** How far the page, or a scrollable part of it, overflows its width. */
export const overflowOf = async (page: Page): Promise<number> =>
  await page.evaluate<number>(`Math.max(
    ...[document.documentElement, ...document.querySelectorAll("main .page, main .scroll")]
      .map(({ scrollWidth, clientWidth }) => scrollWidth - clientWidth))`);
