/** `sandkasten stats`: a session's resource usage. */
import type { SessionStats } from "@sandkasten/sdk";
import type { Command } from "commander";
import type { Cli } from "../cli.ts";
import { findSession } from "../find-by-id.ts";
import { plainJson } from "../output/plain-text.ts";
import { printTable } from "../output/table.ts";
import { formatBytes, formatDuration } from "../output/units.ts";

interface Usage {
  readonly name: string;
  readonly used: number;
  readonly limit?: number;
  readonly format: (value: number) => string;
}

export function addStatsCommand(program: Command, cli: Cli): void {
  program
    .command("stats")
    .summary("show a session's resource usage")
    .description("Shows memory, processor time, processes and disk of a session, and their limits.")
    .argument("<session>", "id of the session, or an unambiguous prefix")
    .action(async (id: string) => {
      const client = await cli.connect();
      const session = await findSession(cli, client, id);
      const stats = await session.stats();
      if (cli.wantsJson()) return cli.out.line(plainJson(stats, 2));
      const show = (row: Usage, value: number | undefined): string =>
        value === undefined ? "" : row.format(value);
      await printTable(
        cli.out,
        [
          { head: "WHAT", value: ({ name }) => name },
          { head: "USED", value: ({ used }) => String(used), shown: (row) => show(row, row.used) },
          {
            head: "LIMIT",
            value: ({ limit }) => String(limit ?? ""),
            shown: (row) => show(row, row.limit),
          },
        ],
        usages(stats),
      );
    });
}

function usages(stats: SessionStats): readonly Usage[] {
  const format = String;
  return [
    { name: "memory", used: stats.memoryBytes, limit: stats.memoryLimit, format: formatBytes },
    { name: "disk", used: stats.diskBytes, limit: stats.diskLimit, format: formatBytes },
    { name: "processes", used: stats.pids, limit: stats.pidsLimit, format },
    { name: "cpu", used: stats.cpuUsageUsec, format: (usec) => formatDuration(usec / 1000) },
    { name: "oom-kills", used: stats.oomKills, format },
  ];
}
