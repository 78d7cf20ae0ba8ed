import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { closeSync, openSync, readFileSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pino } from "pino";
import { afterAll, beforeAll, expect, it } from "vitest";
import { batchedLines } from "./log-lines.ts";

let directory: string;
beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), "sandkasten-log-"));
});
afterAll(async () => {
  await rm(directory, { recursive: true, force: true });
});

it("writes lines in batches, and a warning at once with the lines before it", async () => {
  const path = join(directory, "log");
  const fd = openSync(path, "w");
  const log = pino({ base: null, timestamp: false }, batchedLines(fd));
  const written = (): string => readFileSync(path, "utf8");
  log.info("one");
  log.info("two");
  expect(written()).toBe("");
  log.warn("three");
  const three = ["30", "30", "40"].map((level) => `{"level":${level},"msg":`);
  expect(written()).toBe(`${three[0]}"one"}\n${three[1]}"two"}\n${three[2]}"three"}\n`);
  log.info("later");
  await expect.poll(written).toContain("later");
  // More than one write takes, and none of it waits for the next line.
  for (let line = 0; line < 1000; line++) log.info(`line ${line} ${"x".repeat(line * 3)}`);
  await expect.poll(() => written().split("\n").length).toBe(1005);
  closeSync(fd);
});

const program = (end: string): string => `
import { pino } from "pino";
import { batchedLines } from ${JSON.stringify(join(import.meta.dirname, "log-lines.ts"))};
const log = pino({}, batchedLines());
log.info("the last words");
${end}`;

it.each([
  ["ends by itself", ""],
  ["exits", "process.exit(3);"],
  ["fails", "throw new Error('unforeseen');"],
])("loses nothing when the process %s", (_how, end) => {
  const { stderr } = spawnSync(process.execPath, ["--input-type=module", "--eval", program(end)], {
    cwd: import.meta.dirname,
    encoding: "utf8",
  });
  expect(stderr).toContain("the last words");
});

it("a reader that closes the output does not end the process", async () => {
  const child = spawn(
    process.execPath,
    [
      "--input-type=module",
      "--eval",
      program(
        "setTimeout(() => { log.info('unheard'); setTimeout(() => process.exit(7), 100); }, 100);",
      ),
    ],
    { cwd: import.meta.dirname, stdio: ["ignore", "ignore", "pipe"] },
  );
  const exited = once(child, "exit") as Promise<[number]>;
  child.stderr.once("data", () => child.stderr.destroy());
  expect((await exited)[0]).toBe(7);
});
