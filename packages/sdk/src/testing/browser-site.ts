/** A local web site whose page uses the built package and reports the results. */
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { fileURLToPath } from "node:url";
import { rolldown } from "rolldown";
import { buildPackage } from "../../build-package.ts";

/** The results of a page. */
export type Report = Readonly<Record<string, unknown>>;

/** The same site under two names, which are two origins to a browser. */
export class BrowserSite implements AsyncDisposable {
  /** The results of the page at `origin`. */
  readonly report: Promise<Report>;
  /** The results of the page at `foreignOrigin`, which is a frame in the other. */
  readonly foreignReport: Promise<Report>;
  readonly #reports = {
    own: Promise.withResolvers<Report>(),
    foreign: Promise.withResolvers<Report>(),
  };
  readonly #scripts: Readonly<Record<string, string>>;
  readonly #server = createServer((request, response) => void this.#serve(request, response));
  #settings = "";

  private constructor(scripts: Readonly<Record<string, string>>) {
    this.#scripts = scripts;
    this.report = this.#reports.own.promise;
    this.foreignReport = this.#reports.foreign.promise;
  }

  static async start(): Promise<BrowserSite> {
    const [sdk, page] = await Promise.all([builtSdk(), builtPage()]);
    const site = new BrowserSite({ "/sdk.js": sdk, "/page.js": page });
    const { promise, resolve } = Promise.withResolvers<void>();
    site.#server.listen(0, "127.0.0.1", resolve);
    await promise;
    return site;
  }

  get origin(): string {
    return `http://127.0.0.1:${this.#port}`;
  }

  get foreignOrigin(): string {
    return `http://localhost:${this.#port}`;
  }

  /** Sets the daemon for the pages. */
  use(daemon: { readonly url: string; readonly apiKey: string }): void {
    this.#settings = new URLSearchParams({ daemon: daemon.url, key: daemon.apiKey }).toString();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise((resolve) => this.#server.close(resolve));
  }

  get #port(): number {
    return (this.#server.address() as AddressInfo).port;
  }

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { pathname } = new URL(request.url ?? "", this.origin);
    const isOwn = `http://${request.headers.host}` === this.origin;
    const script = this.#scripts[pathname];
    if (script !== undefined) {
      response.setHeader("content-type", "text/javascript").end(script);
    } else if (pathname === "/report") {
      const report = JSON.parse(await text(request)) as Report;
      this.#reports[isOwn ? "own" : "foreign"].resolve(report);
      response.end();
    } else {
      response.setHeader("content-type", "text/html").end(this.#html(isOwn));
    }
  }

  /** A script that cannot be loaded reports nothing, so the page does. */
  #html(isOwn: boolean): string {
    const source = `/page.js?${this.#settings}`.replaceAll("&", "&amp;");
    return `<!doctype html>
      <script>
        addEventListener("error", ({ message = "a script is missing" }) => {
          fetch("/report", { method: "POST", body: JSON.stringify({ failure: message }) });
        }, true);
      </script>
      <script type="module" src="${source}"></script>
      ${isOwn ? `<iframe src="${this.foreignOrigin}"></iframe>` : ""}`;
  }
}

/** The module as it is published. */
async function builtSdk(): Promise<string> {
  const directory = await mkdtemp(join(tmpdir(), "sandkasten-sdk-browser-"));
  try {
    await buildPackage(directory);
    return await readFile(join(directory, "index.js"), "utf8");
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
}

/** The page's script, which imports the SDK from its own file. */
async function builtPage(): Promise<string> {
  const input = fileURLToPath(new URL("./browser-page.ts", import.meta.url));
  await using bundle = await rolldown({ input, external: ["@sandkasten/sdk"] });
  const paths = { "@sandkasten/sdk": "/sdk.js" };
  const { output } = await bundle.generate({ format: "esm", paths });
  return output[0].code;
}
