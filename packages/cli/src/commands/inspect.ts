/** `sandkasten inspect`: all details of a session. */
import type { SessionInfo } from "@sandkasten/sdk";
import type { Command } from "commander";
import type { Cli } from "../cli.ts";
import { findSession } from "../find-by-id.ts";
import { plainJson } from "../output/plain-text.ts";
import { printTable } from "../output/table.ts";

export function addInspectCommand(program: Command, cli: Cli): void {
  program
    .command("inspect")
    .summary("show all details of a session")
    .description(
      "Shows all details of a session, even after it has ended: one line for each, or a JSON document with --json.",
    )
    .argument("<session>", "id of the session, or an unambiguous prefix")
    .action(async (given: string) => {
      const session = await findSession(cli, await cli.connect(), given);
      if (cli.wantsJson()) return cli.out.line(plainJson(session.lastInfo, 2));
      const columns = [
        { head: "FIELD", value: ([name]: Field) => name },
        { head: "VALUE", value: ([, value]: Field) => value },
      ];
      await printTable(cli.out, columns, fields(session.lastInfo));
    });
}

type Field = readonly [name: string, value: string];

function fields(info: SessionInfo): readonly Field[] {
  // Each field also has a name in snake case, which is not enumerable and needs no second line.
  return Object.entries(info).flatMap(([name, value]: readonly [string, unknown]) => {
    if (value === undefined || value === null) return [];
    return [[name, typeof value === "string" ? value : JSON.stringify(value)] as const];
  });
}
