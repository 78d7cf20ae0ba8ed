/** `sandkasten events`: past and live events. */
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
    .summary("show events")
    .description(
      "Shows stored events of one session, or all events that the key can see: sessions, commands, " +
        "files and images. --json prints one line per event, whose `id` is the cursor to continue from.",
    )
    .argument("[session]", "id of a session, or an unambiguous prefix")
    .option("-f, --follow", "keep streaming; without a cursor, only new events")
    .option(
      "--types <types>",
      "only these types, separated by commas: exec.ended, or session for all session events",
    )
    .option("--cursor <id>", "only events after the event with this id")
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
