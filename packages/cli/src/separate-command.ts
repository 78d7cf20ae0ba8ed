/** Finds where a sandbox's command begins, so `run ls -la` needs no `--`. */
import type { Command, Option } from "commander";

/** Commands whose last argument is a command for a sandbox, with options that are not ours. */
const TAKES_A_COMMAND: ReadonlySet<string> = new Set(["run", "exec"]);

/** Inserts `--` before the first word of the sandbox's command, if the user did not. */
export function separateCommand(program: Command, args: readonly string[]): readonly string[] {
  let command = program;
  let operands = 0;
  for (let at = 0; at < args.length; at++) {
    const word = args[at] ?? "";
    if (word === "--") return args;
    if (word.startsWith("-") && word.length > 1) {
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

/** Whether the word after an option is its value, by commander's rules. */
function takesNext(options: readonly Option[], word: string, next: string | undefined): boolean {
  if (word.startsWith("--")) {
    const option = options.find(({ long }) => long === word);
    return option !== undefined && wantsValue(option, next);
  }
  // Short options can be combined; the rest of the word is the value of one that takes a value.
  for (let at = 1; at < word.length; at++) {
    const option = options.find(({ short }) => short === `-${word[at]}`);
    if (option === undefined) return false;
    if (option.required || option.optional)
      return at === word.length - 1 && wantsValue(option, next);
  }
  return false;
}

function wantsValue(option: Option, next: string | undefined): boolean {
  if (option.required) return true;
  return option.optional && next !== undefined && !next.startsWith("-");
}
