/** Assembles the command line: the host's streams, the commands, and their shared state. */
import { SandboxClient } from "@sandkasten/sdk";
import type { Command } from "commander";
import type { Cli, GlobalOptions } from "./cli.ts";
import { findDaemon } from "./daemon-address.ts";
import type { Host } from "./host.ts";
import { Interrupts } from "./interrupts.ts";
import { Sink } from "./output/sink.ts";
import { buildProgram } from "./program.ts";

export interface Assembled {
  readonly cli: Cli;
  readonly program: Command;
  /** As set by the command that ran. */
  readonly exitCode: () => number;
}

export function assemble(host: Host): Assembled {
  let exitCode = 0;
  const interrupts = new Interrupts((code) => host.exitNow(code));
  const onClosed = (): void => interrupts.interrupt({ kind: "closed-pipe" });
  const { colours } = host.environment;
  const cli: Cli = {
    host,
    out: new Sink(host.stdout, colours, onClosed),
    err: new Sink(host.stderr, colours, onClosed),
    interrupts,
    options: () => program.opts<GlobalOptions>(),
    wantsJson: () => program.opts<GlobalOptions>().json === true,
    connect: async () => {
      const { url, apiKey } = await findDaemon(cli);
      return new SandboxClient({ baseUrl: url, apiKey: apiKey ?? null });
    },
    exitWith: (code) => {
      exitCode = code;
    },
  };
  const program: Command = buildProgram(cli);
  return { cli, program, exitCode: () => exitCode };
}
