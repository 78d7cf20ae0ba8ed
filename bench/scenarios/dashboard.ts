/** How soon the dashboard is usable, compared with a static page in the same browser. */
import { once } from "node:events";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import type { Page } from "playwright-core";
import { TestBrowser } from "../../tests/support/browser.ts";
import type { BenchContext, Scenario } from "../context.ts";
import { interleave, timeUs } from "../interleave.ts";
import type { Contestant } from "../interleave.ts";
import type { Series } from "../series.ts";

const PAGE = `<!doctype html><title>Static</title><label>API key <input type="password"></label>`;

export const dashboard: Scenario = {
  name: "dashboard",
  what: "opening the dashboard in a browser without a cache, until a key can be typed, and until the sessions are shown",
  run: measure,
};

async function measure(context: BenchContext): Promise<Series[]> {
  const { quick, signal } = context;
  const server = await startServer();
  try {
    await using daemon = await context.startDaemon();
    await using browser = await TestBrowser.start();
    const { port } = server.address() as AddressInfo;
    const bytes: number[] = [];
    const fresh = (act: (page: Page) => Promise<unknown>): Contestant => {
      return async () => {
        const { page } = await browser.page();
        try {
          return await timeUs(() => act(page));
        } finally {
          await page.context().close();
        }
      };
    };
    const open = async (page: Page, url: string): Promise<void> => {
      await page.goto(url, { waitUntil: "commit" });
      await page.getByLabel("API key").waitFor();
    };
    const { url, apiKey } = daemon.address;
    const times = await interleave(
      {
        "static page": fresh((page) => open(page, `http://127.0.0.1:${port}/`)),
        "sign-in": fresh((page) => open(page, url)),
        "sessions shown": fresh(async (page) => {
          const loaded: Promise<number>[] = [];
          page.on("requestfinished", (request) => {
            loaded.push(request.sizes().then(({ responseBodySize }) => responseBodySize));
          });
          await open(page, url);
          await page.getByLabel("API key").fill(apiKey);
          await page.keyboard.press("Enter");
          await page.getByText("No active sessions").waitFor();
          bytes.push((await Promise.all(loaded)).reduce((sum, size) => sum + size, 0));
        }),
      },
      { scenario: dashboard.name, rounds: quick ? 5 : 30, warmUpRounds: 2, signal },
    );
    return [
      ...times,
      { scenario: dashboard.name, name: "first load", unit: "bytes", samples: bytes },
    ];
  } finally {
    server.closeAllConnections();
    server.close();
  }
}

async function startServer(): Promise<Server> {
  const server = createServer((_request, response) => {
    response.setHeader("content-type", "text/html").end(PAGE);
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return server;
}
