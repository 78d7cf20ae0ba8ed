/** `sandkasten rm`: destroys sessions. */
import type { SandboxClient } from "@sandkasten/sdk";
import type { Command } from "commander";
import type { Cli } from "../cli.ts";
import { findSession } from "../find-by-id.ts";
import { UsageFailure } from "../failure.ts";
import { plainJson, plainText } from "../output/plain-text.ts";
import { waiting } from "../output/waiting.ts";
import { describeFailure, printFailure } from "../report-failure.ts";
import { find } from "./ls.ts";

/** Destroying takes the daemon's time, not ours, so several run at once. */
const AT_ONCE = 8;

export function addRmCommand(program: Command, cli: Cli): void {
  program
    .command("rm")
    .alias("kill")
    .summary("destroy sessions")
    .description(
      "Destroys sessions with all their processes and files. Workspaces and what `logs` and `ps` show " +
        "are kept. Prints the id of each destroyed session.",
    )
    .argument("[session...]", "ids of the sessions, or unambiguous prefixes")
    .option("--all", "all active sessions")
    .action(async (given: readonly string[], { all }: { readonly all?: boolean }) => {
      if ((all === true) === given.length > 0)
        throw new UsageFailure(
          all === true ? "--all cannot be combined with ids." : "No session was given.",
          "Name the sessions to destroy, or pass --all to destroy all of them.",
        );
      const client = await cli.connect();
      const ids = all === true ? await living(cli, client) : given;
      const destroyed = await destroyAll(cli, client, ids);
      if (cli.wantsJson()) await cli.out.line(plainJson(destroyed, 2));
    });
}

async function living(cli: Cli, client: SandboxClient): Promise<readonly string[]> {
  const sessions = await find(client, {}, cli.interrupts.signal);
  return sessions.map(({ id }) => id);
}

/** A failure does not prevent the others from being destroyed. */
async function destroyAll(
  cli: Cli,
  client: SandboxClient,
  ids: readonly string[],
): Promise<readonly string[]> {
  const destroyed: string[] = [];
  const left = [...ids];
  const worker = async (): Promise<void> => {
    for (let id = left.shift(); id !== undefined; id = left.shift()) {
      cli.interrupts.signal.throwIfAborted();
      try {
        const session = await findSession(cli, client, id);
        await waiting(cli, `Destroying ${session.id}`, () => session.destroy());
        destroyed.push(session.id);
        if (!cli.wantsJson()) await cli.out.line(plainText(session.id));
      } catch (error) {
        await printFailure(cli.err, describeFailure(error), cli.wantsJson());
        cli.exitWith(1);
      }
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, worker));
  return destroyed;
}
