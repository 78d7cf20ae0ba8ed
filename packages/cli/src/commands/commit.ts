/** `sandkasten commit`: creates an image from a session. */
import type { Command } from "commander";
import type { Cli } from "../cli.ts";
import { findSession } from "../find-by-id.ts";
import { plainJson, plainText } from "../output/plain-text.ts";
import { waiting } from "../output/waiting.ts";
import { hinting } from "../report-failure.ts";

export function addCommitCommand(program: Command, cli: Cli): void {
  program
    .command("commit")
    .summary("create an image from a session")
    .description(
      "Creates an image from a session's root file system, including what was installed there, and " +
        "prints its name and digest. The session must have the profile `root` and an image other than " +
        "host. Mounted directories such as /workspace, /home/sandbox and /tmp are not part of the " +
        "image. The session keeps running.",
    )
    .argument("<session>", "id of the session, or an unambiguous prefix")
    .argument("<name>", "name of the new image, as in my-tools:1")
    .action(async (given: string, name: string) => {
      const session = await findSession(cli, await cli.connect(), given);
      const image = await hinting(
        {
          INVALID_IMAGE: "Choose another name, or make the session's root smaller.",
          UNSUPPORTED: "Create the session with --profile root and an image other than host.",
        },
        () =>
          waiting(cli, `Committing ${session.id}`, () =>
            session.commit(name, { signal: cli.interrupts.signal }),
          ),
      );
      if (cli.wantsJson()) return cli.out.line(plainJson(image, 2));
      await cli.out.line(`${plainText(image.reference)}\t${plainText(image.digest)}`);
    });
}
