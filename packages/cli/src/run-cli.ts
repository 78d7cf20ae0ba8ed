/** Runs the command line once and returns its exit code. */
import { type Command, CommanderError } from "commander";
import { assemble } from "./assemble.ts";
import { exitCodeOf } from "./failure.ts";
import type { Host } from "./host.ts";
import { attachValues } from "./option-values.ts";
import { describeFailure, printFailure } from "./report-failure.ts";
import { separateCommand } from "./separate-command.ts";

/** @param args - Without the names of the interpreter and the script. */
export async function runCli(args: readonly string[], host: Host): Promise<number> {
  const { cli, program, exitCode } = assemble(host);
  host.onSignal((signal) => cli.interrupts.interrupt({ kind: "signal", signal }));
  try {
    const words = attachValues(program, separateCommand(program, args));
    await program.parseAsync(words, { from: "user" });
    return exitCode();
  } catch (error) {
    const { interruption } = cli.interrupts;
    if (interruption !== undefined) return exitCodeOf(interruption);
    if (error instanceof CommanderError && isHelp(error)) return error.exitCode === 0 ? 0 : 2;
    const report = describeFailure(error, commandOf(program, args));
    await printFailure(cli.err, report, cli.wantsJson());
    return report.exitCode;
  }
}

/** The command and subcommands among the arguments, as people type them. */
function commandOf(program: Command, args: readonly string[]): string {
  const names = [program.name()];
  let command = program;
  for (const word of args) {
    const inner = command.commands.find((one) => [one.name(), ...one.aliases()].includes(word));
    if (inner === undefined) continue;
    names.push(word);
    command = inner;
    if (inner.commands.length === 0) break;
  }
  return names.join(" ");
}

/** Help and version were printed already. */
function isHelp({ code }: CommanderError): boolean {
  return ["commander.help", "commander.helpDisplayed", "commander.version"].includes(code);
}
