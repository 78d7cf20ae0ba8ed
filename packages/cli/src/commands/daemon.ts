/** `sandkasten daemon`: the daemon in the foreground, until it is stopped. */
import { once } from "node:events";
import type { Command } from "commander";
import { bringUp } from "../bring-up.ts";
import type { Cli } from "../cli.ts";
import { addConfigOptions, type ConfigOptions, loadLocalConfig } from "../local-config.ts";
import { plainJson } from "../output/plain-text.ts";

export function addDaemonCommand(program: Command, cli: Cli): void {
  const command = program
    .command("daemon")
    .summary("start the daemon in the foreground")
    .description(
      "Starts the daemon and prints its address. Ctrl-C or SIGTERM stops it gracefully; a second signal " +
        "stops it at once.",
    );
  addConfigOptions(command).action(async (options: ConfigOptions) => {
    const config = await loadLocalConfig(cli, options);
    const daemon = await bringUp(config, cli.interrupts);
    try {
      if (cli.wantsJson()) await cli.out.line(plainJson({ type: "listening", url: daemon.url }));
      else await cli.out.line(`Sandkasten listens on ${daemon.url}`);
      await interrupted(cli);
    } finally {
      await daemon.stop();
    }
    if (!cli.wantsJson()) await cli.out.line("Sandkasten has stopped.");
  });
}

/** A signal is the normal way to stop a daemon, not a failure. */
export async function interrupted(cli: Cli): Promise<void> {
  if (!cli.interrupts.signal.aborted) await once(cli.interrupts.signal, "abort");
}
