/** Runs a local program that builds images, and shows its output if it fails. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { CliFailure } from "../failure.ts";
import { plainText } from "../output/plain-text.ts";

export interface ToolRun {
  readonly program: string;
  readonly args: readonly string[];
  /** What to do if the program is missing. */
  readonly hint: string;
  readonly env?: Readonly<Record<string, string | undefined>>;
  readonly cwd?: string;
  /** Called for each line that it prints. */
  readonly onLine: (line: string) => void;
  readonly signal: AbortSignal;
}

/** How many of the last lines are shown if a program fails. */
const SHOWN_LINES = 12;

export async function runTool(run: ToolRun): Promise<void> {
  const { program, args, hint, env, cwd, onLine, signal } = run;
  signal.throwIfAborted();
  const child = spawn(program, args, {
    stdio: ["ignore", "pipe", "pipe"],
    // Interrupts are sent to its own process group, including its children.
    detached: true,
    ...(env !== undefined && { env: { ...env } }),
    ...(cwd !== undefined && { cwd }),
  });
  const last: string[] = [];
  const take = (line: string): void => {
    last.push(line);
    if (last.length > SHOWN_LINES) last.shift();
    onLine(line);
  };
  for (const input of [child.stdout, child.stderr]) createInterface({ input }).on("line", take);
  const stop = (): void => {
    if (child.pid !== undefined) process.kill(-child.pid, "SIGTERM");
  };
  signal.addEventListener("abort", stop, { once: true });
  try {
    const [code] = (await once(child, "close")) as [number | null];
    signal.throwIfAborted();
    if (code === 0) return;
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code !== "ENOENT") throw cause;
    throw new CliFailure(`${program} is not installed.`, { hint, code: "UNSUPPORTED", cause });
  } finally {
    signal.removeEventListener("abort", stop);
  }
  throw new CliFailure([`${program} failed:`, ...last.map(plainText)].join("\n"), {
    hint: "The end of its output is above.",
    code: "BUILD_FAILED",
  });
}
