/** Every command's help has examples, and each of them is a valid command line. */
import type { Command } from "commander";
import { describe, expect, it } from "vitest";
import { assemble } from "./assemble.ts";
import { examplesOf } from "./examples.ts";
import { processHost } from "./host.ts";
import { separateCommand } from "./separate-command.ts";
import { MemoryOutput, runTestCli } from "./testing/test-host.ts";

/** Each program adds listeners to its streams. */
function newProgram(): Command {
  const host = processHost();
  return assemble({ ...host, stdout: new MemoryOutput(), stderr: new MemoryOutput() }).program;
}

const program = newProgram();

function visible(command: Command, words: readonly string[] = []): [string, Command][] {
  const inner = command
    .createHelp()
    .visibleCommands(command)
    .filter((one) => one.name() !== "help");
  return [
    [words.join(" "), command],
    ...inner.flatMap((one) => visible(one, [...words, one.name()])),
  ];
}

const all = visible(program);

describe("the help of every command", () => {
  it("is checked for all of them", () => {
    expect(all.length).toBeGreaterThan(50);
  });

  it.each(all)("of `sandkasten %s` has examples", async (words, command) => {
    const args = words === "" ? [] : words.split(" ");
    const { stdout, code } = await runTestCli([...args, "--help"]);
    expect(code).toBe(0);
    const [, shown = ""] = stdout.split("\nExamples:\n");
    const examples = shown.split("\n").flatMap((line) => (line === "" ? [] : [line.trim()]));
    expect(examples).toEqual([...examplesOf(command)]);
    expect(examples.length).toBeGreaterThan(0);
    // The help of a group shows commands of the group.
    const isGroup = command.commands.length > 0;
    for (const example of examples) {
      const parsed = parse(example);
      if (isGroup) expect(`${parsed} `.startsWith(words === "" ? "" : `${words} `)).toBe(true);
      else expect(parsed).toBe(words);
    }
  });
});

/**
 * The command that an example runs, without running it; throws if it is not a valid command line.
 */
function parse(example: string): string {
  const line = /sandkasten ([^<>)]*)/.exec(example)?.[1] ?? "";
  const quoted = line.match(/'[^']*'|[^\s']+/g) ?? [];
  const fresh = newProgram();
  let words: string | undefined;
  const replace = (command: Command, path: readonly string[]): void => {
    command.exitOverride().configureOutput({ outputError: () => undefined });
    if (command.commands.length === 0)
      command.action(() => {
        words = path.join(" ");
      });
    for (const one of command.commands) replace(one, [...path, one.name()]);
  };
  replace(fresh, []);
  const args = quoted.map((word) => word.replaceAll("'", ""));
  fresh.parse([...separateCommand(fresh, args)], { from: "user" });
  if (words === undefined) throw new Error(`"${example}" runs nothing`);
  return words;
}
