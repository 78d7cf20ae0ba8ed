/** `sandkasten agent`: runs agents, and shows agents and their runs. */
import type { Command } from "commander";
import type { Cli } from "../cli.ts";
import { addAgentFilesCommands } from "./agent-files.ts";
import { addAgentRunCommand } from "./agent-run.ts";
import { addAgentRunsCommands } from "./agent-runs.ts";

export function addAgentCommand(program: Command, cli: Cli): void {
  const agent = program
    .command("agent")
    .summary("run agents, and show them and their runs")
    .description(
      "Agents: the files `agents/*.prompt` of a directory. The commands use the agent service at " +
        "SANDKASTEN_AGENTS_URL, or the one at http://127.0.0.1:8587. If no service responds, a command " +
        "serves the working directory itself while it runs.",
    );
  addAgentRunCommand(agent, cli);
  addAgentFilesCommands(agent, cli);
  addAgentRunsCommands(agent, cli);
}
