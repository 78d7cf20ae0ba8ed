/** `sandkasten completion`: prints shell completion scripts. */
import { Argument, type Command } from "commander";
import type { Cli } from "../cli.ts";
import { type Candidate, completeWords } from "../complete-words.ts";
import { plainText } from "../output/plain-text.ts";
import { knownToAgentService } from "../agents/known-names.ts";
import { find } from "./ls.ts";

type Shell = "bash" | "zsh" | "fish";
const SHELLS: readonly Shell[] = ["bash", "zsh", "fish"];

export function addCompletionCommand(program: Command, cli: Cli): void {
  program
    .command("completion")
    .summary("print a script that completes commands in a shell")
    .description(
      "Prints a script for a shell. For bash put `source <(sandkasten completion bash)` into " +
        "~/.bashrc; for zsh `source <(sandkasten completion zsh)` into ~/.zshrc, after compinit; for fish " +
        "`sandkasten completion fish | source` into ~/.config/fish/config.fish.",
    )
    .addArgument(new Argument("<shell>", "the shell").choices(SHELLS))
    .action(async (shell: Shell) => {
      await cli.out.write(SCRIPTS[shell]);
    });
  program
    .command("complete", { hidden: true })
    .description("Prints what the last of the words may become, for the scripts of `completion`.")
    .addArgument(new Argument("<shell>", "the shell").choices(SHELLS))
    .argument("[word...]", "the words after `sandkasten`, the last one unfinished")
    .action(async (shell: Shell, words: readonly string[]) => {
      const candidates = await completeWords(program, words, (kind) => known(cli, kind));
      for (const candidate of candidates) await cli.out.line(FORMATS[shell](candidate));
    });
}

/** Completion is best effort: without a daemon there are simply no ids. */
async function known(cli: Cli, kind: string): Promise<readonly Candidate[]> {
  try {
    if (/^(agent|workflow)( run)?$/.test(kind)) return await knownToAgentService(cli, kind);
    const client = await cli.connect();
    const { signal } = cli.interrupts;
    if (kind === "session") {
      const sessions = await find(client, {}, signal);
      return sessions.map(({ id, image, status }) => ({ word: id, about: `${status}, ${image}` }));
    }
    if (kind === "workspace") {
      const workspaces = await client.workspaces.list({ signal });
      return workspaces.map(({ id }) => ({ word: id, about: "workspace" }));
    }
    const images = await client.images.list({ signal });
    return images.map(({ reference, source }) => ({ word: reference, about: source }));
  } catch {
    return [];
  }
}

const FORMATS: Readonly<Record<Shell, (candidate: Candidate) => string>> = {
  bash: ({ word }) => plainText(word),
  zsh: ({ word, about }) => `${plainText(word).replaceAll(":", "\\:")}:${plainText(about)}`,
  fish: ({ word, about }) => `${plainText(word)}\t${plainText(about)}`,
};

const SCRIPTS: Readonly<Record<Shell, string>> = {
  bash: `_sandkasten() {
  local IFS=$'\\n'
  COMPREPLY=($(sandkasten complete bash -- "\${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null))
}
complete -o default -F _sandkasten sandkasten
`,
  zsh: `_sandkasten() {
  local -a found
  found=("\${(@f)$(sandkasten complete zsh -- "\${(@)words[2,CURRENT]}" 2>/dev/null)}")
  if [[ -n "$found[1]" ]]; then
    _describe sandkasten found
  else
    _files
  fi
}
compdef _sandkasten sandkasten
`,
  fish: `complete -c sandkasten -a '(sandkasten complete fish -- (commandline -opc)[2..-1] (commandline -ct) 2>/dev/null)'
`,
};
