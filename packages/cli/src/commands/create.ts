/** `sandkasten create`: a session for later commands. */
import type { Command } from "commander";
import type { Cli } from "../cli.ts";
import { plainJson, plainText } from "../output/plain-text.ts";
import { waiting } from "../output/waiting.ts";
import {
  addEnvironmentOption,
  addSessionOptions,
  type SessionOptions,
  sessionRequest,
  variables,
} from "../session-options.ts";
import { warnOfSubstitute } from "../substitute-image.ts";

interface CreateOptions extends SessionOptions {
  readonly env?: readonly string[];
  readonly key?: string;
}

export function addCreateCommand(program: Command, cli: Cli): void {
  const command = program
    .command("create")
    .alias("open")
    .summary("create a session and print its id")
    .description(
      "Creates a session and prints its id, for `exec`, `shell`, `cp` and the other commands. `rm` " +
        "destroys the session; otherwise it expires after its time to live without use.",
    )
    .option(
      "--key <key>",
      "get or create: returns the active session with this key (namespace:id:name) if there is one",
    );
  addSessionOptions(addEnvironmentOption(command)).action(async (options: CreateOptions) => {
    const client = await cli.connect();
    const env = variables(cli, options.env);
    const session = await waiting(cli, "Creating a session", () =>
      client.createSession({
        ...sessionRequest(options),
        ...(env !== undefined && { env }),
        ...(options.key !== undefined && { key: options.key }),
        signal: cli.interrupts.signal,
      }),
    );
    await warnOfSubstitute(cli, session);
    await cli.out.line(cli.wantsJson() ? plainJson(session.lastInfo, 2) : plainText(session.id));
  });
}
