/** `npm start` in a clean clone: it installs exactly what a daemon needs, and only once. */
import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { appendFile, cp, mkdtemp, readdir, readFile, rm, stat } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { createInterface } from "node:readline";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, test } from "vitest";

const run = promisify(execFile);
const TIMEOUT_MS = 15 * 60_000;
const ROOT = join(import.meta.dirname, "../..");
/** What tests need, agents can be used with, or the pages are built with. */
const NOT_NEEDED =
  "vitest typescript oxlint rolldown vite @scalar @mastra langchain openai ai".split(" ");

let directory: string;
let clone: string;
beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), "sandkasten-clone-"));
  clone = join(directory, "clone");
  // The files that git would have, including uncommitted changes.
  const list = "git ls-files --cached --others --exclude-standard --deduplicate -z";
  const copy = `mkdir "$1" && ${list} | xargs -0 ls -d 2>/dev/null | tar -cf - -T - | tar -xf - -C "$1"`;
  await run("bash", ["-c", copy, "copy", clone], { cwd: ROOT });
  // Programs that are built already need no Rust.
  await cp(join(ROOT, "native/bin"), join(clone, "native/bin"), { recursive: true });
});
afterAll(async () => {
  await rm(directory, { recursive: true, force: true });
});

const environment = {
  PATH: `${dirname(process.execPath)}:${process.env["PATH"]}`,
  HOME: process.env["HOME"],
};

const setUp = async (): Promise<string> =>
  (await run("bash", ["scripts/setup.sh"], { cwd: clone, env: environment })).stdout;

const readyFile = async (): Promise<number> => (await stat(join(clone, ".toolchain/ready"))).ino;

describe("npm start in a clean clone", { timeout: TIMEOUT_MS }, () => {
  test("starts a daemon with its pages, and installs little", async () => {
    const listen = ["--listen", "127.0.0.1:0", "--agents-listen", "127.0.0.1:0"];
    const args = ["start", "--", ...listen, "--data-dir", join(directory, "data")];
    const child = spawn("npm", args, {
      cwd: clone,
      env: environment,
      stdio: ["ignore", "pipe", "inherit"],
      detached: true,
    });
    const exited = once(child, "exit");
    let said = "";
    try {
      for await (const line of createInterface(child.stdout)) {
        said += `${line}\n`;
        if (line.startsWith("Ctrl-C stops")) break;
      }
      const url = /^URL {2}(.*)$/m.exec(said)?.[1] ?? said;
      const pages = { "/": "<title>Sandkasten", "/docs": "scalar", "/guide/": "First steps" };
      for (const [path, text] of Object.entries(pages))
        expect([path, await (await fetch(url + path)).text()]).toEqual([
          path,
          expect.stringContaining(text),
        ]);
    } finally {
      process.kill(-(child.pid ?? 0), "SIGINT");
      await exited;
    }
    expect(said).toContain("✓ Start the agent service http://127.0.0.1:");
    // The address does not wait for the agents.
    expect(said.indexOf("\nURL ")).toBeLessThan(said.indexOf("✓ Start the agent service"));
    const installed = await readdir(join(clone, "node_modules"));
    expect(installed).toEqual(expect.arrayContaining(["fastify", "genkit"]));
    expect(NOT_NEEDED.filter((name) => installed.includes(name))).toEqual([]);
    const { stdout } = await run("du", ["-sm", "node_modules"], { cwd: clone });
    expect(Number.parseInt(stdout, 10)).toBeLessThan(250);
    expect(await readdir(join(clone, ".toolchain"))).not.toContain("pages");
  });

  test("set-up does nothing when nothing has changed", async () => {
    const before = await readyFile();
    expect(await setUp()).toBe("set-up: ready\n");
    expect(await readyFile()).toBe(before);
  });

  test("set-up builds again what has changed", async () => {
    await appendFile(join(clone, "docs/architecture.md"), "\nA sentence that is new.\n");
    expect(await setUp()).toContain("building the dashboard and the documentation");
    const page = join(clone, "packages/site/dist/guide/architecture.html");
    expect(await readFile(page, "utf8")).toContain("A sentence that is new.");
    const before = await readyFile();
    await setUp();
    expect(await readyFile()).toBe(before);
  });
});
