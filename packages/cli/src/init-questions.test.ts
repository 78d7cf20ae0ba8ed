import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { spawn } from "@lydell/node-pty";
import { afterEach, beforeEach, expect, it } from "vitest";

let scratch: string;
beforeEach(async () => {
  scratch = await mkdtemp(join(tmpdir(), "sandkasten-cli-"));
});
afterEach(async () => {
  await rm(scratch, { recursive: true, force: true });
});

/** Runs `init` on a terminal and answers each prompt. */
async function init(answers: readonly (readonly [question: RegExp, typed: string])[]) {
  const main = fileURLToPath(new URL("main.ts", import.meta.url));
  const pty = spawn(process.execPath, [main, "init"], {
    cwd: scratch,
    cols: 100,
    rows: 30,
    env: { ...process.env, NO_COLOR: "1" },
  });
  const waiting = [...answers];
  let text = "";
  pty.onData((data) => {
    text += data;
    if (!(waiting[0]?.[0].test(text) ?? false)) return;
    pty.write(waiting.shift()?.[1] ?? "");
  });
  const code = await new Promise<number>((resolve) => {
    pty.onExit(({ exitCode }) => resolve(exitCode));
  });
  return { code, text };
}

it("init asks on a terminal, and writes the answers", async () => {
  const { code } = await init([
    [/Which address/, "127.0.0.1:9191\r"],
    [/Which image/, "\r"],
    [/How much memory/, "2048\r"],
    [/how many seconds/, "\r"],
  ]);
  expect(code).toBe(0);
  const text = await readFile(join(scratch, "sandkasten.yaml"), "utf8");
  const set = text.split("\n").filter((line) => /^ *[a-z_]+:/.test(line));
  expect(set).toEqual(['listen: "127.0.0.1:9191"', "defaults:", "  mem_limit_mb: 2048"]);
});

it("init writes nothing after Ctrl-C", async () => {
  const { code, text } = await init([[/Which address/, "\u0003"]]);
  expect(code).toBe(1);
  expect(text).toContain("Nothing was written.");
  await expect(readFile(join(scratch, "sandkasten.yaml"))).rejects.toThrow(/ENOENT/);
});
