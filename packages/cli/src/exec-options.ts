/** The options of `run` and `exec` for running a command. */
import type { Command as SandboxCommand, StartOptions } from "@sandkasten/sdk";
import { type Command, Option } from "commander";
import type { Cli } from "./cli.ts";
import { UsageFailure } from "./failure.ts";
import { parseDurationMs } from "./output/units.ts";
import { addEnvironmentOption, variables } from "./session-options.ts";

export interface ExecOptions {
  readonly timeout?: number;
  readonly idleTimeout?: number;
  readonly cwd?: string;
  readonly env?: readonly string[];
  readonly user?: string;
  readonly merge?: boolean;
  readonly stdin?: boolean;
  readonly shell?: boolean;
  readonly argv?: boolean;
  readonly fresh?: boolean;
  readonly inShell?: string;
}

export function addExecOptions(command: Command): Command {
  return addEnvironmentOption(command)
    .option(
      "--timeout <duration>",
      "kill the command after this time, with exit code 124",
      parseDurationMs,
    )
    .option(
      "--idle-timeout <duration>",
      "kill the command if it prints nothing for this time, with exit code 124",
      parseDurationMs,
    )
    .option("--cwd <path>", "working directory")
    .option("--user <user[:group]>", "user to run as, by name or id; requires the profile `root`")
    .option("--merge", "merge stdout and stderr into one stream, in exact order")
    .option(
      "-i, --stdin",
      "forward stdin even if it is a terminal; piped input is always forwarded",
    )
    .option("--no-stdin", "do not forward stdin, for example in a loop that reads lines")
    .addOption(
      new Option("--shell", "quote several words and run them in the shell").conflicts("argv"),
    )
    .addOption(
      new Option(
        "--in-shell <name>",
        "run in the shell with this name, which its first command creates; shells run in parallel",
      ).conflicts(["argv", "fresh"]),
    )
    .addOption(
      new Option("--argv", "run a single word as a program, without a shell").conflicts([
        "shell",
        "fresh",
      ]),
    );
}

/**
 * One word is text for the shell, several are a program and its arguments: words that the user's
 * shell has already split must not be joined again by guessing.
 */
export function sandboxCommand(words: readonly string[], options: ExecOptions): SandboxCommand {
  const [first] = words;
  if (first === undefined)
    throw new UsageFailure(
      "No command was given.",
      "Write it at the end, as in `sandkasten run ls -la`.",
    );
  if (options.argv === true) return words;
  if (words.length === 1) return first;
  const isText = options.shell === true || options.fresh === true || options.inShell !== undefined;
  return isText ? words.map(quoted).join(" ") : words;
}

/** Quotes a word for a shell. */
export function quoted(word: string): string {
  return /^[A-Za-z0-9_./:=@%+,-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
}

export function startOptions(cli: Cli, options: ExecOptions): StartOptions {
  const env = variables(cli, options.env);
  return {
    ...(options.timeout !== undefined && { timeoutMs: options.timeout }),
    ...(options.idleTimeout !== undefined && { idleTimeoutMs: options.idleTimeout }),
    ...(options.cwd !== undefined && { cwd: options.cwd }),
    ...(env !== undefined && { env }),
    ...(options.user !== undefined && { user: options.user }),
    ...(options.merge === true && { merge: true }),
    ...(options.fresh === true && { stateful: false }),
    ...(options.inShell !== undefined && { shell: options.inShell }),
    ...(passesInput(cli, options) && { stdinOpen: true }),
  };
}

export function passesInput(cli: Cli, options: ExecOptions): boolean {
  if (options.stdin === false) return false;
  const { stdinKind } = cli.host;
  return stdinKind === "piped" || (options.stdin === true && stdinKind === "terminal");
}
