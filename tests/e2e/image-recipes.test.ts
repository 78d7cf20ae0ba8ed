/** The image recipes work, with a real pip and a small package in place of a large one. */
import { execFile } from "node:child_process";
import { createReadStream } from "node:fs";
import { mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { SandboxClient } from "@sandkasten/sdk";
import { afterAll, beforeAll, expect, test } from "vitest";
import { debianRootfs } from "../../packages/daemon/src/images/testing/debian-rootfs.ts";
import { codeBlocks, shownOutput } from "../support/markdown.ts";
import { TestDaemon } from "../support/test-daemon.ts";

const run = promisify(execFile);
const CACHE_DIR = process.env["SANDKASTEN_TEST_CACHE"] ?? "/var/cache/sandkasten-test";
const GUIDE = "docs/guides/image-recipes.md";

let daemon: TestDaemon;
let scratch: string;
beforeAll(async () => {
  scratch = await mkdtemp(join(tmpdir(), "sandkasten-e2e-recipes-"));
  daemon = await TestDaemon.start();
  const client = new SandboxClient({ baseUrl: daemon.url, apiKey: daemon.apiKey });
  const rootfs = await debianRootfs(CACHE_DIR);
  if (rootfs === undefined)
    throw new Error(`no Debian root can be kept in ${CACHE_DIR}; set SANDKASTEN_TEST_CACHE`);
  await client.images.import("docker.io/sandbox-runtime:python", createReadStream(rootfs));
}, 300_000);
afterAll(async () => {
  await daemon[Symbol.asyncDispose]();
  await rm(scratch, { recursive: true, force: true });
});

/** The part of pandas that the recipe needs, as a wheel, which is a zip archive. */
async function makeWheel(directory: string): Promise<void> {
  const root = join(directory, "content");
  const info = join(root, "pandas-1.0.dist-info");
  await mkdir(join(root, "pandas"), { recursive: true });
  await mkdir(info);
  await writeFile(
    join(root, "pandas/__init__.py"),
    "class Series(list):\n    def sum(self):\n        return sum(self)\n",
  );
  await writeFile(join(info, "METADATA"), "Metadata-Version: 2.1\nName: pandas\nVersion: 1.0\n");
  await writeFile(
    join(info, "WHEEL"),
    "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
  );
  await writeFile(join(info, "RECORD"), "");
  const wheel = join(directory, "pandas-1.0-py3-none-any.whl");
  await run("python3", ["-m", "zipfile", "-c", wheel, "pandas", "pandas-1.0.dist-info"], {
    cwd: root,
  });
}

test("pandas, installed in a session and committed", { timeout: 180_000 }, async () => {
  await makeWheel(scratch);
  const text = await readFile(GUIDE, "utf8");
  const blocks = codeBlocks(text, "sh");
  expect(blocks).toHaveLength(3);
  const script = blocks.map((block) => block.text);
  const { stdout } = await run("bash", ["-euo", "pipefail", "-c", script.join("\n")], {
    cwd: scratch,
    env: {
      PATH: [join(process.cwd(), "packages/cli/bin"), process.env["PATH"]].join(":"),
      HOME: scratch,
      PIP_NO_INDEX: "1",
      PIP_FIND_LINKS: scratch,
      PIP_QUIET: "1",
      SANDKASTEN_URL: daemon.url,
      SANDKASTEN_API_KEY: daemon.apiKey,
    },
  });
  const shown = blocks.map(({ output }) => output ?? "").join("");
  expect(shown).toContain("pandas:1");
  expect(stdout).toMatch(shownOutput(shown));
});
