/** Finds where a sandbox's command begins, so `run ls -la` needs no `--`. */
import type { Command } from "commander";
import { isOption, takesNext } from "./option-values.ts";

/** Commands whose last argument is a command for a sandbox, with options that are not ours. */
const TAKES_A_COMMAND: ReadonlySet<string> = new Set(["run", "exec"]);

/** Inserts `--` before the first word of the sandbox's command, if the user did not. */
export function separateCommand(program: Command, args: readonly string[]): readonly string[] {
  let command = program;
  let operands = 0;
  for (let at = 0; at < args.length; at++) {
    const word = args[at] ?? "";
    if (word === "--") return args;
    if (isOption(word)) {
      if (takesNext([...command.options, ...program.options], word, args[at + 1])) at++;
      continue;
    }
    if (command === program) {
      const inner = program.commands.find((one) => one.name() === word);
      if (inner === undefined || !TAKES_A_COMMAND.has(word)) return args;
      command = inner;
      continue;
    }
    operands++;
    if (operands === command.registeredArguments.length)
      return [...args.slice(0, at), "--", ...args.slice(at)];
  }
  return args;
}
