/** `sandkasten version`: the versions of this program and of the daemon. */
import type { Command } from "commander";
import type { Cli } from "../cli.ts";
import { plainJson, plainText } from "../output/plain-text.ts";
import { cliVersion } from "../version.ts";

interface DaemonVersion {
  readonly version: string;
  readonly backend: string;
  readonly node: string;
}

export function addVersionCommand(program: Command, cli: Cli): void {
  program
    .command("version")
    .summary("show the versions of this program and of the daemon")
    .description("Shows the version of this program, and of the daemon if one answers.")
    .action(async () => {
      const daemon = await askDaemon(cli);
      if (cli.wantsJson())
        return cli.out.line(
          plainJson({ cli: cliVersion(), node: process.version, daemon: daemon ?? null }, 2),
        );
      await cli.out.line(`cli\t${cliVersion()}\tNode ${process.version}`);
      await cli.out.line(
        daemon === undefined
          ? "daemon\tnone answers"
          : `daemon\t${plainText(daemon.version)}\t${plainText(`${daemon.backend} on Node ${daemon.node}`)}`,
      );
    });
}

/** A missing daemon is a valid result here; a refusal is not. */
async function askDaemon(cli: Cli): Promise<DaemonVersion | undefined> {
  const client = await cli.connect();
  try {
    return await client.version({ signal: cli.interrupts.signal });
  } catch (error) {
    if (error instanceof Error && "code" in error && error.code === "CONNECTION_FAILED")
      return undefined;
    throw error;
  }
}
