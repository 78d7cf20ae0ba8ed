/** `sandkasten run`: runs one command in a temporary sandbox. */
import type { Session } from "@sandkasten/sdk";
import type { Command } from "commander";
import type { Cli } from "../cli.ts";
import {
  addExecOptions,
  type ExecOptions,
  passesInput,
  sandboxCommand,
  startOptions,
} from "../exec-options.ts";
import { plainJson } from "../output/plain-text.ts";
import { addSessionOptions, type SessionOptions, sessionRequest } from "../session-options.ts";
import { exitCodeOfCommand, streamCommand } from "../stream-command.ts";
import { withOwnSession } from "../own-session.ts";

export function addRunCommand(program: Command, cli: Cli): void {
  const command = program
    .command("run")
    .summary("run a command in a new sandbox")
    .description(
      "Creates a session, runs a command in it, streams its output, and destroys the session, even after " +
        "Ctrl-C. Exits with the command's exit code, or with 124 if the command exceeded its timeout. " +
        "One word is shell text; several words are a program and its arguments.",
    )
    .usage("[options] <command...>")
    .argument("<command...>", "command with its options; those of sandkasten come before it");
  addSessionOptions(command);
  addExecOptions(command).action(
    async (words: readonly string[], options: SessionOptions & ExecOptions) => {
      const sandbox = sandboxCommand(words, options);
      const client = await cli.connect();
      await withOwnSession(cli, client, sessionRequest(options), async (session) => {
        cli.exitWith(await runIn(cli, session, sandbox, options));
      });
    },
  );
}

async function runIn(
  cli: Cli,
  session: Session,
  command: string | readonly string[],
  options: ExecOptions,
): Promise<number> {
  const exec = await session.start(command, {
    ...startOptions(cli, options),
    signal: cli.interrupts.signal,
  });
  if (cli.wantsJson())
    await cli.out.line(plainJson({ type: "started", sessionId: session.id, execId: exec.id }));
  const info = await streamCommand(cli, exec, { input: passesInput(cli, options) });
  if (cli.wantsJson()) await cli.out.line(plainJson({ type: "ended", ...info }));
  return exitCodeOfCommand(info);
}
