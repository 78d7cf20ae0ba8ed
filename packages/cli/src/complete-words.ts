/** Completes an unfinished word of the command line, from the commands' own definitions. */
import type { Argument, Command, Option } from "commander";

export interface Candidate {
  readonly word: string;
  readonly about: string;
}

/** Arguments whose values come from the daemon or the agent service, by their names in the definitions. */
const KNOWN_ELSEWHERE: Readonly<Record<string, string>> = {
  session: "session",
  workspace: "workspace",
  reference: "image",
  agent: "agent",
  workflow: "workflow",
};

/** @param words - The words after the program's name; the last one is unfinished, possibly empty. */
export async function completeWords(
  program: Command,
  words: readonly string[],
  ask: (kind: string) => Promise<readonly Candidate[]>,
): Promise<readonly Candidate[]> {
  const current = words.at(-1) ?? "";
  const place = follow(program, words.slice(0, -1));
  const all = await candidatesAt(place, current, ask);
  return all.filter(({ word }) => word.startsWith(current));
}

interface Position {
  readonly command: Command;
  /** How many arguments of the command precede it. */
  readonly before: number;
  /** The option whose value comes next. */
  readonly pending?: Option;
  /** What follows `--` is a command for the sandbox. */
  readonly closed: boolean;
}

function follow(program: Command, words: readonly string[]): Position {
  let command = program;
  let before = 0;
  let pending: Option | undefined;
  for (const word of words) {
    if (pending !== undefined) pending = undefined;
    else if (word === "--") return { command, before, closed: true };
    else if (word.startsWith("-")) pending = awaitsValue(command, word);
    else {
      const inner: Command | undefined = command.commands.find(
        (candidate) => candidate.name() === word || candidate.aliases().includes(word),
      );
      if (inner === undefined) before++;
      else command = inner;
    }
  }
  return { command, before, closed: false, ...(pending !== undefined && { pending }) };
}

function awaitsValue(command: Command, word: string): Option | undefined {
  const option = optionsOf(command).find(({ long, short }) => word === long || word === short);
  return option?.required === true ? option : undefined;
}

function optionsOf(command: Command): readonly Option[] {
  const chain: Command[] = [];
  for (let at: Command | null = command; at !== null; at = at.parent) chain.push(at);
  return chain.flatMap(({ options }) => options);
}

async function candidatesAt(
  { command, before, pending, closed }: Position,
  current: string,
  ask: (kind: string) => Promise<readonly Candidate[]>,
): Promise<readonly Candidate[]> {
  if (closed) return [];
  if (pending !== undefined) {
    if (pending.argChoices !== undefined) return words(pending.argChoices);
    return pending.long === "--image" ? await ask("image") : [];
  }
  if (current.startsWith("-"))
    return optionsOf(command).flatMap(({ long, description, hidden }) =>
      long === undefined || hidden ? [] : [{ word: long, about: description }],
    );
  const inner = command.createHelp().visibleCommands(command);
  if (inner.length > 0)
    return inner.map((one) => ({ word: one.name(), about: one.summary() || one.description() }));
  const argument = argumentAt(command, before);
  if (argument === undefined) return [];
  if (argument.argChoices !== undefined) return words(argument.argChoices);
  const name = argument.name();
  // Agents and workflows have separate runs.
  const kind = name === "run" ? `${command.parent?.name() ?? ""} run` : KNOWN_ELSEWHERE[name];
  return kind === undefined ? [] : await ask(kind);
}

function argumentAt(command: Command, before: number): Argument | undefined {
  const all = command.registeredArguments;
  const last = all.at(-1);
  return all[before] ?? (last?.variadic === true ? last : undefined);
}

function words(choices: readonly string[]): readonly Candidate[] {
  return choices.map((word) => ({ word, about: "" }));
}
