/** Debian's Chromium, driven by Playwright. */
import { type Browser, type BrowserContextOptions, chromium, type Page } from "playwright-core";

/** A browser, and the pages that a test opens in it. */
export class TestBrowser implements AsyncDisposable {
  readonly #browser: Browser;

  private constructor(browser: Browser) {
    this.#browser = browser;
  }

  static async start(): Promise<TestBrowser> {
    return new TestBrowser(
      await chromium.launch({
        executablePath: "/usr/bin/chromium",
        args: [
          // Its own sandbox does not work for root, and it only shows pages of the test.
          "--no-sandbox",
          "--disable-dev-shm-usage",
          "--disable-background-networking",
          "--disable-component-update",
        ],
      }),
    );
  }

  /** A page with separate storage. Its errors are collected in `problems`. */
  async page(options: BrowserContextOptions = {}): Promise<TestPage> {
    const context = await this.#browser.newContext({ locale: "en-GB", ...options });
    const page = await context.newPage();
    const problems: string[] = [];
    page.on("pageerror", (error) => problems.push(String(error)));
    page.on("console", (message) => {
      // The page itself shows errors of the API.
      if (message.type() === "error" && !message.text().startsWith("Failed to load resource"))
        problems.push(message.text());
    });
    return { page, problems };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#browser.close();
  }
}

export interface TestPage {
  readonly page: Page;
  /** Exceptions, and console errors, which include violations of the page's policy. */
  readonly problems: readonly string[];
}
