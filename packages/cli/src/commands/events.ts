/** `sandkasten events`: what happened, and what happens. */
import type { SandboxEvent } from "@sandkasten/sdk";
import type { Command } from "commander";
import type { Cli } from "../cli.ts";
import { findSession } from "../find-by-id.ts";
import { plainJson, plainText } from "../output/plain-text.ts";

interface Options {
  readonly follow?: boolean;
  readonly types?: string;
  readonly cursor?: string;
}

export function addEventsCommand(program: Command, cli: Cli): void {
  program
    .command("events")
    .summary("show what happened")
    .description(
      "Shows the events that the daemon keeps, of one session or of all that the key may see: " +
        "sessions, commands, files, images. With --json, one line for each event, whose `id` is the " +
        "cursor to go on from.",
    )
    .argument("[session]", "id of a session, or an unambiguous prefix")
    .option("-f, --follow", "go on as more happens; without a cursor only with what comes")
    .option("--types <types>", "only these, with commas: exec.ended, or session for all of them")
    .option("--cursor <id>", "only what is behind the event with this id")
    .action(async (session: string | undefined, options: Options) => {
      const client = await cli.connect();
      const events = client.events({
        sessionId: session === undefined ? undefined : (await findSession(cli, client, session)).id,
        follow: options.follow === true,
        cursor: options.cursor,
        types: options.types?.split(","),
        signal: cli.interrupts.signal,
      });
      for await (const event of events)
        await cli.out.line(cli.wantsJson() ? plainJson(event) : lineOf(event));
    });
}

function lineOf({ time, type, owner, sessionId, data }: SandboxEvent): string {
  const details = Object.entries(data).map(
    ([name, value]) => `${name}=${typeof value === "string" ? value : JSON.stringify(value)}`,
  );
  const words = [time, type, owner === "" ? "-" : owner, sessionId ?? "-", ...details];
  return plainText(words.join("  "));
}
