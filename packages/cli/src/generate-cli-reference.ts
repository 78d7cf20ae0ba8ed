/**
 * Prints `docs/reference/cli.md`, generated from the command definitions:
 *
 *     node packages/cli/src/generate-cli-reference.ts > docs/reference/cli.md
 *
 * A test fails if the page is out of date.
 */
import type { Argument, Command, Option } from "commander";
import { assemble } from "./assemble.ts";
import { examplesOf } from "./examples.ts";
import { processHost } from "./host.ts";

const INTRODUCTION = `# Command line

Generated from the definitions in \`packages/cli/src/commands\`.

In a clone of the project the program is \`packages/cli/bin/sandkasten\`, which finds the right version of Node.

**Daemon.** A command uses the first of these that is set:

1. \`--url\` and \`--api-key\`, or \`--daemon\` with the name of a [profile](#sandkasten-profile),
2. \`SANDKASTEN_URL\` and \`SANDKASTEN_API_KEY\`,
3. \`SANDKASTEN_PROFILE\`,
4. the profile that \`profile use\` chose,
5. the daemon of the local configuration: its address, and its key from the file \`api-key\` in its data directory.

The local key is sent only to the local daemon, and the key of a profile only to the address of that profile. Other users of the machine can see a key on the command line, but not in a variable.

**Agent service.** The commands of \`agent\` and \`workflow\` use the service at \`SANDKASTEN_AGENTS_URL\` with the key in \`SANDKASTEN_AGENTS_API_KEY\`, or the service at \`http://127.0.0.1:8587\`. If no service responds at that address, or with \`--dir DIR\`, the command serves the directory itself while it runs and stores its runs in \`DIR/.sandkasten\`. Models then read their keys, such as \`OPENAI_API_KEY\`, from the environment of the command; otherwise, from that of the service.

**Output.** On a terminal, output has tables, colours (unless \`NO_COLOR\` is set) and progress bars. Otherwise, a list has one line per row with tab-separated fields, no heading, times in ISO 8601 and sizes in bytes. Control characters in names and in the output of agents are shown as \`\\x1b\`; only \`run\`, \`exec\`, \`shell\` and \`logs\` print the output of commands unchanged. \`--json\` prints one JSON document, or for commands that stream (\`run\`, \`exec\`, \`logs\`, \`agent logs\`, \`start\`, \`daemon\`, \`agents serve\`), one JSON object per line with a \`type\`. Fields have the names of the SDK, except that fields of agents and workflows have the names of the HTTP API. Output that is not UTF-8 is also included as \`base64\`.

**Commands in sandboxes.** In \`run\` and \`exec\`, a single word is text for the shell: \`sandkasten exec ID 'cd src && make'\`. Several words are a program and its arguments, without a shell: \`sandkasten exec ID ls -la 'a file'\`. \`--shell\` quotes several words for the shell; \`--argv\` runs a single word as a program. Options of \`sandkasten\` must come before the first word of the command, because all later words belong to the command. You can put \`--\` before the command.

**Ids** of sessions, commands, runs and keys can be shortened to an unambiguous prefix of at least three letters, with or without the part before the underscore: \`ses_1f2e\` or \`1f2e\`. If a prefix matches both active and ended sessions, it refers to the active one. Names of workspaces and images must be complete.

**Failures** are two lines on stderr: what happened, and what to do. With \`--json\`, stderr has an object \`{"error":{"code","message","hint"}}\` instead.

| exit code | meaning |
|---|---|
| 0 | success |
| 1 | failure; \`doctor\` found that sandboxes cannot run here; \`validate\` found a mistake |
| 2 | invalid usage |
| 3 | \`daemon\`, \`start\`: the data directory belongs to another program, such as the older Sandkasten |
| 124 | \`run\`, \`exec\`: the command exceeded its timeout |
| 129, 130, 143 | ended by SIGHUP, Ctrl-C or SIGTERM; \`daemon\`, \`start\` and \`agents serve\` exit with 0 instead once they have started |
| 130 | \`agent run\`, \`workflow run\`: the run was cancelled |
| 141 | the reader closed the output |
| any other | \`run\`, \`exec\`, \`shell\`: the exit code of the command |
`;

/** The whole page. */
export function cliReference(): string {
  const { program } = assemble(processHost());
  const parts = [
    INTRODUCTION,
    "## Options of every command\n",
    optionTable(program.options),
    ...program.commands.flatMap((command) => commandSection(command, "##")),
  ];
  return `${parts.join("\n").trimEnd()}\n`;
}

/** A command and its sub-commands; hidden ones are for programs. */
function commandSection(command: Command, level: string): string[] {
  const shown = command.parent?.createHelp().visibleCommands(command.parent) ?? [];
  if (!shown.includes(command)) return [];
  const inner = command.commands.flatMap((one) => commandSection(one, `${level}#`));
  return [
    `${level} ${fullName(command)}\n`,
    ...aliases(command),
    ...(inner.length > 0 ? [] : [`    ${fullName(command)} ${command.usage()}\n`]),
    `${escapeHtml(command.description())}\n`,
    ...argumentTable(command.registeredArguments),
    ...(command.options.length > 0 ? [optionTable(command.options)] : []),
    ...exampleBlock(command),
    ...inner,
  ];
}

function aliases(command: Command): string[] {
  const names = command.aliases().map((name) => `\`${name}\``);
  return names.length === 0 ? [] : [`Also: ${names.join(", ")}.\n`];
}

function exampleBlock(command: Command): string[] {
  const examples = examplesOf(command);
  return examples.length === 0 ? [] : [`\`\`\`sh\n${examples.join("\n")}\n\`\`\`\n`];
}

function fullName(command: Command): string {
  return command.parent === null ? command.name() : `${fullName(command.parent)} ${command.name()}`;
}

function argumentTable(all: readonly Argument[]): string[] {
  if (all.length === 0) return [];
  const rows = all.map((argument) => [
    `\`${argument.name()}${argument.variadic ? "..." : ""}\``,
    about(argument.description, argument.argChoices),
  ]);
  return [table(["argument", "meaning"], rows)];
}

function optionTable(all: readonly Option[]): string {
  const rows = all
    .filter(({ hidden }) => !hidden)
    .map((option) => [
      `\`${option.flags}\``,
      about(option.description, option.argChoices, option.defaultValue),
    ]);
  return table(["option", "meaning"], rows);
}

function about(description: string, choices?: readonly string[], standard?: unknown): string {
  const one = choices?.map((choice) => `\`${choice}\``).join(", ");
  return [
    escapeHtml(description),
    ...(one === undefined ? [] : [`one of ${one}`]),
    ...(typeof standard === "string" ? [`default: \`${standard}\``] : []),
  ].join("; ");
}

/** Outside of code, Markdown interprets `<name>` as markup. */
function escapeHtml(text: string): string {
  const parts = text.split("`");
  return parts.map((part, at) => (at % 2 === 0 ? part.replaceAll("<", "&lt;") : part)).join("`");
}

function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const line = (cells: readonly string[]): string =>
    `| ${cells.map((cell) => cell.replaceAll("|", "\\|")).join(" | ")} |`;
  const rule = `|${head.map(() => "---").join("|")}|`;
  return `${[line(head), rule, ...rows.map(line)].join("\n")}\n`;
}

if (import.meta.main) process.stdout.write(cliReference());
