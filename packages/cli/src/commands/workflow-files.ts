/** `sandkasten workflow list`, `show` and `validate`: the workflows of a directory. */
import type { WorkflowDetails, WorkflowSummary } from "@sandkasten/agents/client";
import type { Command } from "commander";
import { addDirOption, type DirOption, withAgentService } from "../agents/agent-service.ts";
import { reportFiles } from "../agents/validation.ts";
import type { Cli } from "../cli.ts";
import { plainJson, plainProse, plainText } from "../output/plain-text.ts";
import { type Column, printTable } from "../output/table.ts";

export function addWorkflowFilesCommands(workflow: Command, cli: Cli): void {
  const { signal } = cli.interrupts;
  const list = workflow
    .command("list")
    .summary("list workflows")
    .description("Lists the workflows, including those with invalid files.");
  addDirOption(list).action(async (options: DirOption) => {
    await withAgentService(cli, options, "files", async ({ client }) => {
      const workflows = await client.workflows({ signal });
      if (cli.wantsJson()) return cli.out.line(plainJson(workflows, 2));
      if (workflows.length === 0)
        return cli.err.line("There are no workflows yet. Add one as workflows/NAME.yaml.");
      await printTable(cli.out, columns(cli), workflows);
    });
  });

  const show = workflow
    .command("show")
    .summary("show a workflow")
    .description("Shows the steps of a workflow, or its graph as Mermaid source with --graph.")
    .argument("<workflow>", "id of the workflow")
    .option("--graph", "print the graph, for Mermaid");
  addDirOption(show).action(
    async (id: string, options: DirOption & { readonly graph?: boolean }) => {
      await withAgentService(cli, options, "files", async ({ client }) => {
        const graph = options.graph === true;
        const details = await client.workflow(id, { graph, signal });
        if (cli.wantsJson()) return cli.out.line(plainJson(details, 2));
        if (graph) return cli.out.line(plainProse(details.graph ?? "").trimEnd());
        await showDetails(cli, details);
      });
    },
  );

  const validate = workflow
    .command("validate")
    .summary("check the files of workflows")
    .description(
      "Checks the files of all workflows, or of one. Prints each problem as FILE:LINE:COLUMN and exits with 1 if there is one.",
    )
    .argument("[workflow]", "id of the workflow");
  addDirOption(validate).action(async (id: string | undefined, options: DirOption) => {
    await withAgentService(cli, options, "files", async ({ client }) => {
      const workflows =
        id === undefined
          ? await client.workflows({ signal })
          : [await client.workflow(id, { signal })];
      await reportFiles(cli, workflows, "workflows");
    });
  });
}

function columns(cli: Cli): readonly Column<WorkflowSummary>[] {
  const { style } = cli.out;
  return [
    { head: "WORKFLOW", value: ({ id }) => id },
    { head: "STEPS", value: ({ steps }) => String(steps) },
    {
      head: "ABOUT",
      value: ({ error, description, name }) => error ?? description ?? name ?? "",
      paint: (text, { error }) => (error === undefined ? text : style.red(text)),
      elastic: true,
    },
  ];
}

async function showDetails(cli: Cli, workflow: WorkflowDetails): Promise<void> {
  const { bold, dim } = cli.out.style;
  const facts: readonly (readonly [string, string | undefined])[] = [
    ["workflow", workflow.id],
    ["name", workflow.name],
    ["about", workflow.description],
    ["file", workflow.file],
    ["error", workflow.error],
  ];
  for (const [name, value] of facts)
    if (value !== undefined && value !== "")
      await cli.out.line(`${bold(name)}\t${plainText(value)}`);
  await cli.out.line();
  for (const step of workflow.steps) {
    const { id, type, ...rest } = Object(step) as Readonly<Record<string, unknown>>;
    const more = Object.keys(rest).length === 0 ? "" : ` ${dim(plainText(JSON.stringify(rest)))}`;
    await cli.out.line(`${plainText(String(id))}\t${plainText(String(type))}${more}`);
  }
}
