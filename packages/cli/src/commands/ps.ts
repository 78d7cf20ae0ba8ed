/** `sandkasten ps`: the commands of a session. */
import type { ExecInfo } from "@sandkasten/sdk";
import type { Command } from "commander";
import type { Cli } from "../cli.ts";
import { findSession } from "../find-by-id.ts";
import { plainJson } from "../output/plain-text.ts";
import type { Style } from "../output/style.ts";
import { type Column, printTable } from "../output/table.ts";
import { formatBytes, formatDuration, formatMoment } from "../output/units.ts";
import { parseNumber } from "../session-options.ts";

interface Options {
  readonly running?: boolean;
  readonly limit?: number;
}

export function addPsCommand(program: Command, cli: Cli): void {
  program
    .command("ps")
    .summary("list the commands of a session")
    .description(
      "Lists the commands that were run in a session, newest first, even after the session has ended.",
    )
    .argument("<session>", "id of the session, or an unambiguous prefix")
    .option("-r, --running", "only running commands")
    .option("-n, --limit <number>", "maximum number of commands", parseNumber)
    .action(async (id: string, options: Options) => {
      const client = await cli.connect();
      const session = await findSession(cli, client, id);
      const execs = await take(session.execs({ signal: cli.interrupts.signal }), options);
      if (cli.wantsJson()) return cli.out.line(plainJson(execs, 2));
      await printTable(cli.out, columns(cli.out.style, Date.now()), execs);
    });
}

async function take(all: AsyncIterable<ExecInfo>, options: Options): Promise<ExecInfo[]> {
  const taken: ExecInfo[] = [];
  const limit = options.limit ?? Infinity;
  if (limit < 1) return taken;
  for await (const exec of all) {
    if (options.running === true && exec.status === "done") continue;
    taken.push(exec);
    if (taken.length >= limit) break;
  }
  return taken;
}

export function commandText(cmd: string | readonly string[]): string {
  return typeof cmd === "string" ? cmd : cmd.join(" ");
}

function ending({ status, exitCode, endReason }: ExecInfo): string {
  if (status !== "done") return status;
  if (endReason === "exited" && exitCode !== null) return `exit ${exitCode}`;
  return exitCode === null ? (endReason ?? "unknown") : `${endReason ?? "exit"} ${exitCode}`;
}

function columns(style: Style, nowMs: number): readonly Column<ExecInfo>[] {
  return [
    { head: "COMMAND", value: ({ execId }) => execId },
    {
      head: "STATUS",
      value: ending,
      paint: (text, { status, exitCode }) => {
        if (status !== "done") return style.yellow(text);
        return exitCode === 0 ? style.green(text) : style.red(text);
      },
    },
    {
      head: "STARTED",
      value: ({ startedAt }) => startedAt,
      shown: ({ startedAt }) => formatMoment(startedAt, nowMs),
    },
    {
      head: "TOOK",
      value: ({ durationMs }) => String(durationMs),
      shown: ({ durationMs }) => formatDuration(durationMs),
    },
    {
      head: "OUTPUT",
      value: ({ outputBytes }) => String(outputBytes),
      shown: ({ outputBytes }) => formatBytes(outputBytes),
    },
    { head: "TEXT", value: ({ cmd }) => commandText(cmd), elastic: true },
  ];
}
