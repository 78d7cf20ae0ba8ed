/** `sandkasten init`: writes a configuration file that explains itself. */
import { rename, rm, writeFile } from "node:fs/promises";
import { resolve } from "node:path";
import type { Command } from "commander";
import type { Cli } from "../cli.ts";
import { configTemplate } from "../config-template.ts";
import { CliFailure } from "../failure.ts";
import { plainJson, plainText } from "../output/plain-text.ts";

interface Options {
  readonly output: string;
  readonly yes?: boolean;
  readonly force?: boolean;
}

export function addInitCommand(program: Command, cli: Cli): void {
  program
    .command("init")
    .summary("write a configuration file")
    .description(
      "Writes sandkasten.yaml with every key, its meaning and its default. On a terminal, asks for the " +
        "most important values; with --yes, with --json, or when piped, it uses the defaults.",
    )
    .option("-o, --output <file>", "file to write", "sandkasten.yaml")
    .option("-y, --yes", "use the defaults without asking")
    .option("--force", "replace an existing file")
    .action(async (options: Options) => {
      const path = resolve(cli.host.workingDirectory, options.output);
      const asks =
        options.yes !== true &&
        !cli.wantsJson() &&
        cli.host.stdinKind === "terminal" &&
        cli.out.isTerminal;
      const { configKeys } = await import("@sandkasten/daemon/config");
      const keys = configKeys();
      const answers = asks
        ? await (await import("../init-questions.ts")).askSettings(cli, keys)
        : new Map<string, unknown>();
      await write(path, configTemplate(keys, answers), options.force === true);
      if (cli.wantsJson()) await cli.out.line(plainJson({ file: path }, 2));
      else await cli.out.line(plainText(cli.out.isTerminal ? `Wrote ${path}.` : path));
    });
}

/** Only readable by its owner: an API key may be added later. */
const OWN_ONLY = 0o600;

async function write(path: string, text: string, force: boolean): Promise<void> {
  if (force) {
    const temporary = `${path}.new`;
    try {
      await writeFile(temporary, text, { mode: OWN_ONLY });
      await rename(temporary, path);
    } finally {
      await rm(temporary, { force: true });
    }
    return;
  }
  try {
    await writeFile(path, text, { flag: "wx", mode: OWN_ONLY });
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code !== "EEXIST") throw cause;
    throw new CliFailure(`${path} already exists and was not changed.`, {
      hint: "Pass --force to replace it, or another name with --output.",
      code: "FILE_EXISTS",
      cause,
    });
  }
}
