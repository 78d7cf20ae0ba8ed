/** `sandkasten shell`: an interactive terminal in a session. */
import type { Pty, Session, TerminalSize } from "@sandkasten/sdk";
import type { Command } from "commander";
import type { Cli } from "../cli.ts";
import { findExec, findSession } from "../find-by-id.ts";
import { withOwnSession } from "../own-session.ts";
import {
  addEnvironmentOption,
  addSessionOptions,
  type SessionOptions,
  sessionRequest,
  variables,
} from "../session-options.ts";
import { exitCodeOfCommand } from "../stream-command.ts";
import { holdTerminal } from "../terminal.ts";
import { UsageFailure } from "../failure.ts";

interface Options extends SessionOptions {
  readonly env?: readonly string[];
  readonly cwd?: string;
  readonly command?: string;
  readonly attach?: string;
}

export function addShellCommand(program: Command, cli: Cli): void {
  const command = program
    .command("shell")
    .summary("open an interactive terminal")
    .description(
      "Opens a terminal in a session and exits with the exit code of its shell. Without a session, it " +
        "opens one and destroys it at the end.",
    )
    .argument("[session]", "id of the session, or an unambiguous prefix")
    .option("-c, --command <text>", "command to run in the terminal (default: a login shell)")
    .option("--cwd <path>", "working directory")
    .option("--attach <command>", "reattach to this terminal of the session, by its id from `ps`");
  addSessionOptions(addEnvironmentOption(command)).action(
    async (id: string | undefined, options: Options) => {
      if (id === undefined && options.attach !== undefined)
        throw new UsageFailure("--attach needs a session.", "Name the session before --attach.");
      const client = await cli.connect();
      if (id !== undefined) {
        const session = await findSession(cli, client, id);
        return use(cli, session, options);
      }
      const env = variables(cli, options.env);
      const request = { ...sessionRequest(options), ...(env !== undefined && { env }) };
      await withOwnSession(cli, client, request, (session) => use(cli, session, options));
    },
  );
}

async function use(cli: Cli, session: Session, options: Options): Promise<void> {
  const terminal =
    options.attach === undefined ? undefined : await findExec(cli, session, options.attach);
  const pty = await session.pty({
    ...windowSize(cli),
    ...(options.command !== undefined && { cmd: options.command }),
    ...(options.cwd !== undefined && { cwd: options.cwd }),
    ...(terminal !== undefined && { execId: terminal.id }),
    signal: cli.interrupts.signal,
  });
  try {
    cli.exitWith(await talk(cli, pty));
  } finally {
    pty.close();
  }
}

async function talk(cli: Cli, pty: Pty): Promise<number> {
  using _ = holdTerminal(cli.host.stdin, cli.out);
  const { stdin, stdout } = cli.host;
  const send = (chunk: Uint8Array): void => {
    pty.write(chunk);
  };
  const resize = (): void => {
    pty.resize(windowSize(cli));
  };
  // The end of piped input is Ctrl-D for the program that reads the terminal. It is repeated, because
  // each reader needs one, and a shell that changes the terminal's mode discards what came before.
  let ending: ReturnType<typeof setInterval> | undefined;
  const end = (): void => {
    pty.write(END_OF_TRANSMISSION);
    ending = setInterval(() => pty.write(END_OF_TRANSMISSION), END_PAUSE_MS);
  };
  stdin.on("data", send);
  stdin.on("end", end);
  stdout.on("resize", resize);
  try {
    return await cli.interrupts.race(async () => {
      for await (const bytes of pty) await cli.out.write(bytes);
      return exitCodeOfCommand(await pty.exited);
    });
  } finally {
    stdout.off("resize", resize);
    clearInterval(ending);
    stdin.off("end", end);
    stdin.off("data", send);
    stdin.pause();
  }
}

const END_OF_TRANSMISSION = new Uint8Array([4]);
const END_PAUSE_MS = 200;
const USUAL_SIZE: TerminalSize = { rows: 24, cols: 80 };

function windowSize(cli: Cli): TerminalSize {
  const { rows, columns } = cli.host.stdout;
  // A terminal of unknown size reports 0.
  return rows === undefined || columns === undefined || rows < 1 || columns < 1
    ? USUAL_SIZE
    : { rows, cols: columns };
}
