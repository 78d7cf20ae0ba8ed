/** `sandkasten isolation`: a session's measured isolation. */
import type { Command } from "commander";
import type { Cli } from "../cli.ts";
import { findSession } from "../find-by-id.ts";
import { plainJson, plainText } from "../output/plain-text.ts";
import { printTable } from "../output/table.ts";

export function addIsolationCommand(program: Command, cli: Cli): void {
  program
    .command("isolation")
    .summary("show what isolates a session")
    .description(
      "Shows each isolation property of a session as measured now, from inside and outside, not as " +
        "configured.",
    )
    .argument("<session>", "id of the session, or an unambiguous prefix")
    .action(async (id: string) => {
      const client = await cli.connect();
      const session = await findSession(cli, client, id);
      const report = await session.isolation();
      if (cli.wantsJson()) return cli.out.line(plainJson(report, 2));
      const { style } = cli.out;
      if (cli.out.isTerminal)
        await cli.out.line(
          `${style.bold(plainText(report.tier))} isolation by ${plainText(report.runtime)}\n`,
        );
      await printTable(
        cli.out,
        [
          {
            head: "",
            value: ({ enforced }) => (enforced ? "enforced" : "missing"),
            shown: ({ enforced }) => (enforced ? "✓" : "✗"),
            paint: (text, { enforced }) => (enforced ? style.green(text) : style.red(text)),
          },
          { head: "PROPERTY", value: ({ name }) => name },
          { head: "MEASURED", value: ({ measured }) => measured, elastic: true },
        ],
        report.facts,
      );
    });
}
