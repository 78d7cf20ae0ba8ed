/** The command line as a separate process, for the daemon of a test. */
import { execFile } from "node:child_process";
import { join } from "node:path";
import type { TestDaemon } from "./test-daemon.ts";

const CLI = join(import.meta.dirname, "../../packages/cli/src/main.ts");
const MAX_OUTPUT_BYTES = 64 * 1024 * 1024;

export interface CliRun {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

/**
 * @param directory - Where it runs, and its home.
 * @param env - More variables.
 */
export function cliFor(
  daemon: TestDaemon,
  directory: string,
  env: Readonly<Record<string, string | undefined>> = {},
): (...args: readonly string[]) => Promise<CliRun> {
  const variables = {
    PATH: process.env["PATH"],
    NODE_COMPILE_CACHE: process.env["NODE_COMPILE_CACHE"],
    HOME: directory,
    ...env,
    SANDKASTEN_URL: daemon.url,
    SANDKASTEN_API_KEY: daemon.apiKey,
  };
  const options = { env: variables, cwd: directory, maxBuffer: MAX_OUTPUT_BYTES };
  return (...args) =>
    new Promise((resolve) => {
      const child = execFile(process.execPath, [CLI, ...args], options, (_error, stdout, stderr) =>
        resolve({ code: child.exitCode ?? -1, stdout, stderr }),
      );
    });
}
