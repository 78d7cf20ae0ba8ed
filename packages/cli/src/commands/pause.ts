/** `sandkasten pause` and `sandkasten resume`: freeze and resume a session. */
import type { Session } from "@sandkasten/sdk";
import type { Command } from "commander";
import type { Cli } from "../cli.ts";
import { findSession } from "../find-by-id.ts";
import { plainJson, plainText } from "../output/plain-text.ts";

export function addPauseCommand(program: Command, cli: Cli): void {
  add(program, cli, "pause", "pause a session: freeze all its processes", (session) =>
    session.pause(),
  );
}

export function addResumeCommand(program: Command, cli: Cli): void {
  add(program, cli, "resume", "resume a paused session", (session) => session.resume());
}

function add(
  program: Command,
  cli: Cli,
  name: string,
  what: string,
  act: (session: Session) => Promise<unknown>,
): void {
  program
    .command(name)
    .summary(what)
    .description(`${what.charAt(0).toUpperCase()}${what.slice(1)}, and print its id.`)
    .argument("<session>", "id of the session, or an unambiguous prefix")
    .action(async (id: string) => {
      const client = await cli.connect();
      const session = await findSession(cli, client, id);
      await act(session);
      await cli.out.line(cli.wantsJson() ? plainJson(session.lastInfo, 2) : plainText(session.id));
    });
}
