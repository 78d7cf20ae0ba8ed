/** The Python client: its own tests on a real daemon, its types, and its guide. */
import { execFile } from "node:child_process";
import { existsSync } from "node:fs";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { SandboxClient } from "@sandkasten/sdk";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { codeBlocks } from "../support/markdown.ts";
import { TestDaemon } from "../support/test-daemon.ts";

interface OpenApiDocument {
  readonly paths: Readonly<Record<string, Readonly<Record<string, SampledOperation>>>>;
}
interface SampledOperation {
  readonly "x-codeSamples": readonly { readonly lang: string; readonly source: string }[];
}

const run = promisify(execFile);
const CLIENT = join(import.meta.dirname, "../../clients/python");
/**
 * Contains the packages that the client and its tests need; `npm test` installs it, see
 * scripts/setup.sh.
 */
const PYTHON = join(import.meta.dirname, "../../.toolchain/python/bin/python");
const isInstalled = existsSync(join(PYTHON, "../../installed.txt"));

let daemon: TestDaemon;
beforeAll(async () => {
  daemon = await TestDaemon.start({
    settings: {
      API_KEY: "key-of-the-administrator",
      API_KEYS: "tests=key-of-tests,guide=key-of-guide",
      NETWORK_ALLOW: "ok.test",
    },
  });
});
afterAll(async () => {
  await daemon[Symbol.asyncDispose]();
});

const python = async (args: readonly string[], key: string) =>
  await run(PYTHON, [...args], {
    cwd: CLIENT,
    env: {
      PATH: process.env["PATH"],
      PYTHONPATH: "src",
      PYTHONDONTWRITEBYTECODE: "1",
      SANDKASTEN_URL: daemon.url,
      SANDKASTEN_API_KEY: key,
      SANDKASTEN_ADMIN_KEY: "key-of-the-administrator",
    },
  });

async function statusesOf(key: string): Promise<readonly string[]> {
  const client = new SandboxClient({ baseUrl: daemon.url, apiKey: key });
  return (await Array.fromAsync(client.sessions())).map(({ status }) => status);
}

describe.skipIf(!isInstalled).concurrent("the Python client", () => {
  it("passes its tests, with and without asyncio", async () => {
    const discover = ["-m", "unittest", "discover", "--top-level-directory", "."];
    const { stderr } = await python(["-W", "error", ...discover], "key-of-tests");
    expect(stderr).toMatch(/^Ran [1-9][0-9]+ tests in .*\n\nOK\n$/m);
    expect(await statusesOf("key-of-tests")).not.toContain("running");
  });

  it("has a synchronous version that was generated from the asynchronous one", async () => {
    await python(["generate_sync.py", "--check"], "none");
  });

  it("passes a strict type checker, and so do the samples of the API", async () => {
    const samples = await mkdtemp(join(tmpdir(), "sandkasten-samples-"));
    try {
      const { body } = await daemon.call<OpenApiDocument>("GET", "/openapi.json");
      const sources = Object.values(body.paths)
        .flatMap((operations) => Object.values(operations))
        .map((operation) => operation["x-codeSamples"].find(({ lang }) => lang === "python"));
      expect(sources.length).toBeGreaterThan(80);
      for (const [index, sample] of sources.entries())
        await writeFile(join(samples, `sample_${index}.py`), `${sample?.source}\n`);
      const checked = ["src", "tests", "generate_sync.py", samples];
      const { stdout } = await python(
        ["-m", "mypy", "--cache-dir", "/dev/null", ...checked],
        "none",
      );
      expect(stdout).toContain("Success: no issues found");
    } finally {
      await rm(samples, { recursive: true, force: true });
    }
  });

  it("runs the examples of its guide", async () => {
    const guide = await readFile(join(CLIENT, "../../docs/guides/python.md"), "utf8");
    const programs = codeBlocks(guide, "python");
    expect(programs.length).toBeGreaterThanOrEqual(2);
    for (const program of programs) {
      const { stdout } = await python(["-W", "error", "-c", program.text], "key-of-guide");
      expect(stdout).toBe(program.output ?? "");
    }
    expect(new Set(await statusesOf("key-of-guide"))).toEqual(new Set(["destroyed"]));
  });
});
