/** `sandkasten open`: a session for later commands. */
import type { Command } from "commander";
import type { Cli } from "../cli.ts";
import { plainJson, plainText } from "../output/plain-text.ts";
import {
  addEnvironmentOption,
  addSessionOptions,
  type SessionOptions,
  sessionRequest,
  variables,
} from "../session-options.ts";

interface OpenOptions extends SessionOptions {
  readonly env?: readonly string[];
  readonly key?: string;
}

export function addOpenCommand(program: Command, cli: Cli): void {
  const command = program
    .command("open")
    .summary("open a session and print its id")
    .description(
      "Opens a session and prints its id, for `exec`, `shell`, `cp` and other commands. The session " +
        "exists until `rm`, or until it expires after its time to live without use.",
    )
    .option(
      "--key <key>",
      "get or create: returns the active session with this key (namespace:id:name), if any",
    );
  addSessionOptions(addEnvironmentOption(command)).action(async (options: OpenOptions) => {
    const client = await cli.connect();
    const env = variables(cli, options.env);
    const session = await client.createSession({
      ...sessionRequest(options),
      ...(env !== undefined && { env }),
      ...(options.key !== undefined && { key: options.key }),
      signal: cli.interrupts.signal,
    });
    await cli.out.line(cli.wantsJson() ? plainJson(session.lastInfo, 2) : plainText(session.id));
  });
}
