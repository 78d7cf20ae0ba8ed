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
          // Its own sandbox does not work for root, and it shows nothing but pages of the test.
          "--no-sandbox",
          "--disable-dev-shm-usage",
          "--disable-background-networking",
          "--disable-component-update",
        ],
      }),
    );
  }

  /** A page with storage of its own. What goes wrong in it is collected in `problems`. */
  async page(options: BrowserContextOptions = {}): Promise<TestPage> {
    const context = await this.#browser.newContext({ locale: "en-GB", ...options });
    const page = await context.newPage();
    const problems: string[] = [];
    page.on("pageerror", (error) => problems.push(String(error)));
    page.on("console", (message) => {
      // An answer of the API that is an error is the page's to show.
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
  /** Exceptions, and errors in the console: refusals of the page's policy are such. */
  readonly problems: readonly string[];
}
