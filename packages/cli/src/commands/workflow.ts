/** `sandkasten workflow`: runs workflows, and shows workflows and their runs. */
import type { Command } from "commander";
import type { Cli } from "../cli.ts";
import { addWorkflowFilesCommands } from "./workflow-files.ts";
import { addWorkflowRunCommands } from "./workflow-run.ts";
import { addWorkflowRunsCommands } from "./workflow-runs.ts";

export function addWorkflowCommand(program: Command, cli: Cli): void {
  const workflow = program
    .command("workflow")
    .summary("run workflows, and show them and their runs")
    .description(
      "Workflows: the files `workflows/*.yaml` of a directory. The commands use the same service as " +
        "those of `agent`.",
    );
  addWorkflowRunCommands(workflow, cli);
  addWorkflowFilesCommands(workflow, cli);
  addWorkflowRunsCommands(workflow, cli);
}
