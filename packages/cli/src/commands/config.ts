/** `sandkasten config`: the configuration in effect on this machine. */
import type { ConfigDescription } from "@sandkasten/daemon/config";
import type { Command } from "commander";
import type { Cli } from "../cli.ts";
import { addConfigOptions, type ConfigOptions, loadLocalConfig } from "../local-config.ts";
import { plainJson, plainText } from "../output/plain-text.ts";
import { printTable } from "../output/table.ts";

export function addConfigCommand(program: Command, cli: Cli): void {
  const command = program
    .command("config")
    .summary("show the configuration in effect")
    .description(
      "Shows every key of the configuration that a daemon started here would have, and where each " +
        "value comes from. Secrets are hidden.",
    );
  addConfigOptions(command).action(async (options: ConfigOptions) => {
    const { describeConfig } = await import("@sandkasten/daemon/config");
    const description = describeConfig(await loadLocalConfig(cli, options));
    if (cli.wantsJson()) return cli.out.line(plainJson(description, 2));
    await printConfig(cli, description);
    for (const warning of description.warnings)
      await cli.err.line(`${cli.err.style.yellow("!")} ${plainText(warning)}`);
  });
}

export async function printConfig(cli: Cli, { settings }: ConfigDescription): Promise<void> {
  const { style } = cli.out;
  await printTable(
    cli.out,
    [
      { head: "KEY", value: ({ key }) => key },
      { head: "VALUE", value: ({ value }) => shownValue(value), elastic: true },
      {
        head: "FROM",
        value: ({ source }) => source.name,
        paint: (text, { source }) => (source.kind === "default" ? style.dim(text) : text),
      },
    ],
    settings,
  );
}

function shownValue(value: unknown): string {
  if (value === undefined || value === null) return "";
  return typeof value === "string" ? value : JSON.stringify(value);
}
