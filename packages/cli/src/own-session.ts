/** A session that belongs to one run of the command line and ends with it. */
import type { CreateSessionOptions, SandboxClient, Session } from "@sandkasten/sdk";
import type { Cli } from "./cli.ts";
import { waiting } from "./output/waiting.ts";
import { describeFailure, printFailure } from "./report-failure.ts";
import { warnOfSubstitute } from "./substitute-image.ts";

export async function withOwnSession(
  cli: Cli,
  client: SandboxClient,
  request: CreateSessionOptions,
  use: (session: Session) => Promise<void>,
): Promise<void> {
  // Creation is not aborted half-way: the daemon might create a session that is never destroyed.
  const session = await waiting(cli, "Creating a session", () => client.createSession(request));
  try {
    await warnOfSubstitute(cli, session);
    await cli.interrupts.race(() => use(session));
  } finally {
    await destroy(cli, session);
  }
}

/** The command's result stands, even if the cleanup fails. */
async function destroy(cli: Cli, session: Session): Promise<void> {
  try {
    await session.destroy();
  } catch (error) {
    const report = describeFailure(error);
    await printFailure(
      cli.err,
      {
        ...report,
        message: `The session ${session.id} could not be destroyed: ${report.message}`,
        hint: `Try \`sandkasten rm ${session.id}\`; otherwise it expires after its time to live.`,
      },
      cli.wantsJson(),
    );
    cli.exitWith(1);
  }
}
