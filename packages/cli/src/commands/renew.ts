/** `sandkasten renew`: extends a session's time to live. */
import type { Command } from "commander";
import type { Cli } from "../cli.ts";
import { findSession } from "../find-by-id.ts";
import { plainJson, plainText } from "../output/plain-text.ts";
import { parseDurationMs } from "../output/units.ts";

interface Options {
  readonly ttl?: number;
}

export function addRenewCommand(program: Command, cli: Cli): void {
  program
    .command("renew")
    .summary("give a session more time")
    .description(
      "Restarts the time to live of a session and prints the new expiry time. Every use of a " +
        "session does the same; `renew` is for a session that stays idle.",
    )
    .argument("<session>", "id of the session, or an unambiguous prefix")
    .option(
      "--ttl <duration>",
      "new time to live, as in 90m (default: the current one)",
      parseDurationMs,
    )
    .action(async (given: string, { ttl }: Options) => {
      const session = await findSession(cli, await cli.connect(), given);
      const info = await session.renew({
        ...(ttl !== undefined && { ttlSeconds: Math.ceil(ttl / 1000) }),
        signal: cli.interrupts.signal,
      });
      await cli.out.line(cli.wantsJson() ? plainJson(info, 2) : plainText(info.expiresAt));
    });
}
