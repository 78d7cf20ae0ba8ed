/** Which words of a command line are values of options. */
import type { Command, Option } from "commander";

/**
 * Writes values that begin with `-` into the word of their option, as in `--cursor=-Vk3`. Otherwise
 * the program would take its own options (`-V`, `--json`) out of the values of a command's.
 */
export function attachValues(program: Command, args: readonly string[]): readonly string[] {
  const attached: string[] = [];
  let command = program;
  for (let at = 0; at < args.length; at++) {
    const word = args[at] ?? "";
    if (word === "--") return [...attached, ...args.slice(at)];
    attached.push(word);
    if (!isOption(word)) {
      command = innerCommand(command, word) ?? command;
      continue;
    }
    const value = args[at + 1];
    if (value === undefined || !takesNext([...command.options, ...program.options], word, value))
      continue;
    at++;
    if (isOption(value))
      attached.splice(-1, 1, `${word}${word.startsWith("--") ? "=" : ""}${value}`);
    else attached.push(value);
  }
  return attached;
}

export function isOption(word: string): boolean {
  return word.startsWith("-") && word.length > 1;
}

/** Whether the word after an option is its value, by commander's rules. */
export function takesNext(
  options: readonly Option[],
  word: string,
  next: string | undefined,
): boolean {
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

function innerCommand(command: Command, word: string): Command | undefined {
  return command.commands.find((one) => one.name() === word || one.aliases().includes(word));
}
