/** A real browser for tests. */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";

const FLAGS = [
  "--headless=new",
  // Its own sandbox does not work for root, and it only shows pages of the test.
  "--no-sandbox",
  "--no-first-run",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-dev-shm-usage",
  "--remote-debugging-port=0",
];

/** Chromium, with all its files in a temporary directory. */
export class Chromium implements AsyncDisposable {
  /** Rejects with its output if it ends by itself. */
  readonly failed: Promise<never>;
  readonly #directory: string;
  readonly #child: ChildProcess;
  readonly #closed: Promise<unknown>;
  readonly #control = Promise.withResolvers<string>();

  private constructor(directory: string, url: string) {
    this.#directory = directory;
    const child = spawn("chromium", [...FLAGS, `--user-data-dir=${directory}`, url], {
      env: { PATH: process.env["PATH"], HOME: directory, TMPDIR: directory },
      stdio: ["ignore", "ignore", "pipe"],
    });
    this.#child = child;
    // All its processes hold the pipe, so it closes with the last of them.
    this.#closed = once(child, "close");
    const said: string[] = [];
    createInterface(child.stderr).on("line", (line) => {
      said.push(line);
      const [, host] = /^DevTools listening on ws:\/\/([^/]+)\//.exec(line) ?? [];
      if (host !== undefined) this.#control.resolve(`http://${host}`);
    });
    this.failed = this.#closed.then(() => {
      throw new Error(`Chromium ended: ${said.join("\n")}`);
    });
    this.failed.catch(() => undefined);
  }

  static async open(url: string): Promise<Chromium> {
    return new Chromium(await mkdtemp(join(tmpdir(), "sandkasten-chromium-")), url);
  }

  /** Opens a page in a new tab, as if its address had been typed. */
  async visit(url: string): Promise<void> {
    const control = await Promise.race([this.#control.promise, this.failed]);
    const path = `/json/new?${encodeURIComponent(url)}`;
    const response = await fetch(`${control}${path}`, { method: "PUT" });
    if (!response.ok) throw new Error(`no tab for ${url}: ${await response.text()}`);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#child.kill();
    await this.#closed;
    await rm(this.#directory, { recursive: true, force: true });
  }
}
