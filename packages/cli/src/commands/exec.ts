/** `sandkasten exec`: runs a command in an existing session. */
import type { Exec } from "@sandkasten/sdk";
import { type Command, Option } from "commander";
import type { Cli } from "../cli.ts";
import { findSession } from "../find-by-id.ts";
import {
  addExecOptions,
  type ExecOptions,
  passesInput,
  sandboxCommand,
  startOptions,
} from "../exec-options.ts";
import type { Interruption } from "../failure.ts";
import { plainJson, plainText } from "../output/plain-text.ts";
import { exitCodeOfCommand, streamCommand } from "../stream-command.ts";

interface Options extends ExecOptions {
  readonly detach?: boolean;
}

export function addExecCommand(program: Command, cli: Cli): void {
  const command = program
    .command("exec")
    .summary("run a command in a session")
    .description(
      "Runs a command in a session and streams its output. One word is text for the session's shell, " +
        "which keeps its directory, variables and background jobs; several words are a program and its " +
        "arguments, which run as a separate process in /workspace. Ctrl-C interrupts the command; a " +
        "second Ctrl-C cancels it. Exits with the command's exit code, or with 124 if the command " +
        "exceeded its timeout.",
    )
    .usage("[options] <session> <command...>")
    .argument("<session>", "id of the session, or an unambiguous prefix")
    .argument(
      "<command...>",
      "command with its options; those of sandkasten come before the session",
    )
    .option("-d, --detach", "print the command's id instead of waiting for it")
    .addOption(
      new Option("--fresh", "run text in a new shell instead of the stateful one").conflicts(
        "argv",
      ),
    );
  addExecOptions(command).action(async (id: string, words: readonly string[], options: Options) => {
    const sandbox = sandboxCommand(words, options);
    const client = await cli.connect();
    const session = await findSession(cli, client, id);
    const input = options.detach !== true && passesInput(cli, options);
    const exec = await session.start(sandbox, {
      ...startOptions(cli, options),
      stdinOpen: input,
      signal: cli.interrupts.signal,
    });
    if (options.detach === true) return printStarted(cli, exec, session.id);
    cli.exitWith(await watch(cli, exec, session.id, input));
  });
}

async function printStarted(cli: Cli, exec: Exec, sessionId: string): Promise<void> {
  const json = { type: "started", sessionId, execId: exec.id };
  await cli.out.line(cli.wantsJson() ? plainJson(json) : plainText(exec.id));
}

async function watch(cli: Cli, exec: Exec, sessionId: string, input: boolean): Promise<number> {
  if (cli.wantsJson()) await printStarted(cli, exec, sessionId);
  using _ = cli.interrupts.divert(passOn(cli, exec));
  const info = await streamCommand(cli, exec, { input });
  if (cli.wantsJson()) await cli.out.line(plainJson({ type: "ended", ...info }));
  return exitCodeOfCommand(info);
}

/** The first signal goes to the command, the second cancels it, the third only ends this process. */
function passOn(cli: Cli, exec: Exec): (by: Interruption) => void {
  let count = 0;
  return (by) => {
    count++;
    const gentle = by.kind === "signal" ? by.signal : "SIGTERM";
    const act = (): Promise<unknown> =>
      count === 1 ? exec.signal(gentle, { tree: true }) : exec.cancel();
    const sent = count > 2 ? undefined : act();
    // Without a reader there is nothing to wait for, and an unreachable command will not end.
    if (sent === undefined || by.kind === "closed-pipe")
      void (sent ?? Promise.resolve()).catch(() => {}).then(() => cli.interrupts.unwind(by));
    else sent.catch(() => cli.interrupts.unwind(by));
  };
}
