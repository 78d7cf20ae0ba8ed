/** `sandkasten shells`: the shells of a session. */
import type { ShellInfo } from "@sandkasten/sdk";
import type { Command } from "commander";
import type { Cli } from "../cli.ts";
import { findSession } from "../find-by-id.ts";
import { plainJson, plainText } from "../output/plain-text.ts";
import { type Column, printTable } from "../output/table.ts";

interface Options {
  readonly close?: string;
}

export function addShellsCommand(program: Command, cli: Cli): void {
  program
    .command("shells")
    .summary("list or close the shells of a session")
    .description(
      "Lists the shells of a session. `exec --in-shell` runs a command in one of them and creates it " +
        "if it does not exist. --close closes a shell and cancels the commands in it.",
    )
    .argument("<session>", "id of the session, or an unambiguous prefix")
    .option("--close <name>", "close this shell")
    .action(async (id: string, { close }: Options) => {
      const client = await cli.connect();
      const { signal } = cli.interrupts;
      const session = await findSession(cli, client, id);
      if (close !== undefined) {
        await session.shell(close).close({ signal });
        return cli.out.line(plainText(close));
      }
      const shells = await session.shells({ signal });
      if (cli.wantsJson()) return cli.out.line(plainJson(shells, 2));
      await printTable(cli.out, COLUMNS, shells);
    });
}

const COLUMNS: readonly Column<ShellInfo>[] = [
  { head: "SHELL", value: ({ name }) => name },
  { head: "KIND", value: ({ kind }) => kind },
  { head: "RUNS", value: ({ execId }) => execId ?? "-" },
  { head: "WAITING", value: ({ queued }) => String(queued) },
  { head: "DIRECTORY", value: ({ cwd }) => cwd, elastic: true },
];
