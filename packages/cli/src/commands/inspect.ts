/** `sandkasten inspect`: all fields of a session. */
import type { SessionInfo } from "@sandkasten/sdk";
import type { Command } from "commander";
import type { Cli } from "../cli.ts";
import { findSession } from "../find-by-id.ts";
import { plainJson, plainText } from "../output/plain-text.ts";

export function addInspectCommand(program: Command, cli: Cli): void {
  program
    .command("inspect")
    .summary("show all fields of a session")
    .description(
      "Shows all fields of an active or ended session: one line each, or a JSON document with --json.",
    )
    .argument("<session>", "id of the session, or an unambiguous prefix")
    .action(async (given: string) => {
      const session = await findSession(cli, await cli.connect(), given);
      if (cli.wantsJson()) return cli.out.line(plainJson(session.lastInfo, 2));
      for (const [name, value] of fields(session.lastInfo))
        await cli.out.line(`${cli.out.style.bold(name)}\t${plainText(value)}`);
    });
}

function fields(info: SessionInfo): readonly (readonly [string, string])[] {
  // Each field also has a non-enumerable snake_case name, which needs no second line.
  return Object.entries(info).flatMap(([name, value]: readonly [string, unknown]) => {
    if (value === undefined || value === null) return [];
    return [[name, typeof value === "string" ? value : JSON.stringify(value)] as const];
  });
}
