/** `sandkasten sweep`: destroys sandboxes that no daemon manages any more. */
import type { Command } from "commander";
import { startFailure } from "../bring-up.ts";
import type { Cli } from "../cli.ts";
import { UsageFailure } from "../failure.ts";
import { addConfigOptions, type ConfigOptions, loadLocalConfig } from "../local-config.ts";
import { plainJson, plainText } from "../output/plain-text.ts";

export function addSweepCommand(program: Command, cli: Cli): void {
  const command = program
    .command("sweep")
    .summary("destroy all sandboxes of a data directory whose daemon is gone")
    .description(
      "Destroys every sandbox in the data directory, with all its processes and files. Use it if the " +
        "database is lost but sandboxes remain. Stop the daemon first. Workspaces are kept.",
    )
    .option("--yes", "confirm");
  addConfigOptions(command).action(async (options: ConfigOptions & { readonly yes?: boolean }) => {
    const config = await loadLocalConfig(cli, options);
    if (options.yes !== true)
      throw new UsageFailure(
        `This would destroy every sandbox in ${config.dataDir}.`,
        "Give --yes to do it.",
      );
    const { sweep } = await import("@sandkasten/daemon");
    const gone = await sweep(config).catch((cause: unknown) => {
      throw startFailure(cause);
    });
    if (cli.wantsJson()) await cli.out.line(plainJson(gone, 2));
    else for (const id of gone) await cli.out.line(plainText(id));
  });
}
