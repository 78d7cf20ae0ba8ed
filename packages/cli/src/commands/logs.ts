/** `sandkasten logs`: the output of commands, even after their sandbox is gone. */
import { setTimeout as sleep } from "node:timers/promises";
import type { ExecInfo, Session } from "@sandkasten/sdk";
import type { Command } from "commander";
import type { Cli } from "../cli.ts";
import { findExec, findSession } from "../find-by-id.ts";
import { plainText } from "../output/plain-text.ts";
import { showChunk, showGap, showOutput } from "../stream-command.ts";
import { commandText } from "./ps.ts";

interface Options {
  readonly follow?: boolean;
}

const LOOK_AGAIN_MS = 500;
const PAGE_BYTES = 1 << 20;
const ENDED = new Set(["destroyed", "expired", "crashed", "failed"]);

export function addLogsCommand(program: Command, cli: Cli): void {
  program
    .command("logs")
    .summary("show the output of commands")
    .description(
      "Shows the output of one command, or of all commands of a session in order, even after the " +
        "session has ended. stdout and stderr stay separate.",
    )
    .argument("<session>", "id of the session, or an unambiguous prefix")
    .argument("[command]", "id of the command as `ps` shows it, or an unambiguous prefix")
    .option(
      "-f, --follow",
      "keep streaming: for one command, including its background processes; " +
        "without a command, until the session ends",
    )
    .action(async (id: string, execId: string | undefined, options: Options) => {
      const client = await cli.connect();
      const session = await findSession(cli, client, id);
      const follow = options.follow === true;
      if (execId === undefined) await showAll(cli, session, follow);
      else {
        const exec = await findExec(cli, session, execId);
        if (follow) await showOutput(cli, exec, "closed");
        else await showOne(cli, session, exec.id, follow);
      }
    });
}

async function showOne(cli: Cli, session: Session, execId: string, follow: boolean): Promise<void> {
  const exec = session.getExec(execId);
  const { signal } = cli.interrupts;
  if (follow) {
    await showOutput(cli, exec);
    return;
  }
  // The output so far; a short page is not necessarily the last.
  let cursor = 0;
  for (;;) {
    const page = await exec.read({ cursor, maxBytes: PAGE_BYTES, signal });
    if (page.skippedBytes > 0 && !cli.wantsJson()) await showGap(cli, page.skippedBytes);
    for (const chunk of page.chunks) await showChunk(cli, execId, chunk);
    if (page.nextCursor === cursor) return;
    cursor = page.nextCursor;
  }
}

async function showAll(cli: Cli, session: Session, follow: boolean): Promise<void> {
  const { signal } = cli.interrupts;
  const shown = new Set<string>();
  for (;;) {
    await session.refresh();
    // Checked before listing the commands, so all commands started before the end are included.
    const ended = ENDED.has(session.lastInfo.status);
    const execs = await Array.fromAsync(session.execs({ signal }));
    for (const exec of execs.reverse()) {
      if (shown.has(exec.execId)) continue;
      shown.add(exec.execId);
      await showTitle(cli, exec);
      await showOne(cli, session, exec.execId, follow);
    }
    if (!follow || ended) return;
    await sleep(LOOK_AGAIN_MS, undefined, { signal });
  }
}

/** Only on a terminal, and on stderr, so the output itself is unchanged. */
async function showTitle(cli: Cli, exec: ExecInfo): Promise<void> {
  if (cli.wantsJson() || !cli.err.isTerminal) return;
  await cli.err.line(cli.err.style.dim(`$ ${plainText(commandText(exec.cmd))}`));
}
