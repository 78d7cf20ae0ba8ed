/** Which modules commands load: a short command spends most of its time loading them. */
import { execFile } from "node:child_process";
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, it } from "vitest";

const PROGRAM = fileURLToPath(new URL("main.ts", import.meta.url));
const MARK = "loaded: ";
const RECORDER = `
import { registerHooks } from "node:module";
const urls = new Set();
registerHooks({ load(url, context, next) { urls.add(url); return next(url, context); } });
process.on("exit", () => process.stderr.write("\\n${MARK}" + JSON.stringify([...urls]) + "\\n"));
`;

/** Nothing listens at this address. */
const ENVIRONMENT = { PATH: process.env["PATH"], SANDKASTEN_AGENTS_URL: "http://127.0.0.1:1" };

let directory: string;
beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), "sandkasten-modules-"));
  await mkdir(join(directory, "agents"));
  await writeFile(join(directory, "agents", "echo.prompt"), "---\nmodel: scripted/x\n---\nHi\n");
});
afterAll(async () => {
  await rm(directory, { recursive: true, force: true });
});

/** The modules of the agent service and of Genkit, without the client. */
async function agentModules(...args: readonly string[]): Promise<readonly string[]> {
  const recorder = `data:text/javascript,${encodeURIComponent(RECORDER)}`;
  const stderr = await new Promise<string>((resolve) =>
    execFile(
      process.execPath,
      ["--import", recorder, PROGRAM, ...args],
      { env: ENVIRONMENT, cwd: directory },
      (_error, _stdout, text) => resolve(text),
    ),
  );
  const line = stderr.split("\n").find((text) => text.startsWith(MARK)) ?? "";
  const urls = JSON.parse(line.slice(MARK.length)) as readonly string[];
  expect(urls.some((url) => url.endsWith("/cli/src/program.ts"))).toBe(true);
  return urls.filter(
    (url) =>
      /\/(?:node_modules\/(?:genkit|@genkit-ai)|agents\/src)\//.test(url) &&
      !url.includes("/agents/src/client/"),
  );
}

describe("Genkit and the agent service", { timeout: 60_000 }, () => {
  it.each(["--help", "ls --url http://127.0.0.1:1", "agent list", "complete bash -- agent run "])(
    "are not loaded by %s",
    async (words) => {
      expect(await agentModules(...words.split(" "))).toEqual([]);
    },
  );

  it("are detected by this test, and Genkit is loaded only when a model is called", async () => {
    const loaded = await agentModules("agent", "validate", "--dir", directory);
    expect(loaded.some((url) => url.endsWith("/agents/src/serve.ts"))).toBe(true);
    expect(loaded.filter((url) => url.includes("/node_modules/"))).toEqual([]);
  });
});
