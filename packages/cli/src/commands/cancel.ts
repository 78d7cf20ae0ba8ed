/** `sandkasten cancel`: ends a command as a timeout does. */
import type { Command } from "commander";
import type { Cli } from "../cli.ts";
import { findExec, findSession } from "../find-by-id.ts";
import { plainJson, plainText } from "../output/plain-text.ts";

export function addCancelCommand(program: Command, cli: Cli): void {
  program
    .command("cancel")
    .summary("cancel a command")
    .description(
      "Interrupts a command, and half a second later kills every process that it started. Its shell and " +
        "earlier background jobs continue. Waits for the end and prints how the command ended.",
    )
    .argument("<session>", "id of the session, or an unambiguous prefix")
    .argument("<command>", "id of the command as `ps` shows it, or an unambiguous prefix")
    .action(async (id: string, execId: string) => {
      const client = await cli.connect();
      const { signal } = cli.interrupts;
      const session = await findSession(cli, client, id);
      const exec = await findExec(cli, session, execId);
      await exec.cancel({ signal });
      const {
        output: _o,
        stdout: _out,
        stderr: _err,
        ...info
      } = await exec.wait({
        outputBudgetBytes: 0,
        signal,
      });
      await cli.out.line(
        cli.wantsJson() ? plainJson(info) : plainText(info.endReason ?? "unknown"),
      );
    });
}
