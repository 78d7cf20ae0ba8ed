/** `sandkasten workflow run` and `resume`: run a workflow and show its steps. */
import type { Command } from "commander";
import {
  addDirOption,
  type AgentService,
  type DirOption,
  withAgentService,
} from "../agents/agent-service.ts";
import { workflowRunId } from "../agents/find-run.ts";
import { followRun } from "../agents/follow-run.ts";
import { agentsOfPlan, requireDaemon } from "../agents/require-daemon.ts";
import { INPUT_MEANING, readInput } from "../agents/run-input.ts";
import { settle, showEnd } from "../agents/run-outcome.ts";
import { WorkflowRunPrinter } from "../agents/workflow-run-printer.ts";
import type { Cli } from "../cli.ts";
import { quoted } from "../exec-options.ts";
import { plainJson, plainProse } from "../output/plain-text.ts";

export function addWorkflowRunCommands(workflow: Command, cli: Cli): void {
  const run = workflow
    .command("run")
    .summary("run a workflow")
    .description(
      "Runs a workflow, shows its steps as they start and end on stderr, and prints its output. If a " +
        "step waits for approval, the run waits as well and shows the command that approves it. --json " +
        "prints the finished run as one object on stdout. Ctrl-C cancels the run. Exits with 0 if the run " +
        "succeeded, 1 if it failed, 130 if it was cancelled.",
    )
    .argument("<workflow>", "id of the workflow")
    .option("--input <json>", INPUT_MEANING);
  addDirOption(run).action(async (id: string, options: DirOption & { readonly input?: string }) => {
    const input = await readInput(cli, options.input);
    await withAgentService(cli, options, "run", async (service) => {
      const plan = await service.client.workflow(id, { signal: cli.interrupts.signal });
      await requireDaemon(cli, service, agentsOfPlan(plan.steps));
      // Starting is not aborted half-way: an unknown run would continue.
      await followWorkflow(cli, service, await service.client.runWorkflow(id, { input }));
    });
  });

  const resume = workflow
    .command("resume")
    .summary("resume a workflow run")
    .description(
      "Resumes a run that needs attention or whose process has ended, and shows it like `workflow run`. " +
        "Finished steps do not run again.",
    )
    .argument("<run>", "id of the run, or an unambiguous prefix");
  addDirOption(resume).action(async (given: string, options: DirOption) => {
    await withAgentService(cli, options, "runs", async (service) => {
      const id = await workflowRunId(cli, service.client, given);
      await takeUp(service, id);
      await followWorkflow(cli, service, id);
    });
  });
}

/** A run whose process ended needs no decision, only to be continued. */
async function takeUp({ client }: AgentService, id: string): Promise<void> {
  try {
    await client.resume(id);
  } catch (error) {
    if (!(error instanceof Error && "code" in error && error.code === "CONFLICT")) throw error;
    if ((await client.workflowRun(id)).ended_at !== undefined) throw error;
  }
}

async function followWorkflow(cli: Cli, service: AgentService, id: string): Promise<void> {
  const { client } = service;
  const suffix = service.isOwn ? ` --dir ${quoted(service.dir)}` : "";
  const printer = cli.wantsJson() ? undefined : new WorkflowRunPrinter(cli, id, suffix);
  await followRun(cli, {
    events: (options) => client.workflowEvents(id, options),
    cancel: () => client.cancelWorkflow(id),
    show: async (event) => printer?.show(event),
  });
  const ended = await client.workflowRun(id);
  if (cli.wantsJson()) await cli.out.line(plainJson(ended, 2));
  else {
    const { output } = ended;
    if (typeof output === "string") await cli.out.line(plainProse(output).trimEnd());
    else if (output !== undefined && output !== null) await cli.out.line(plainJson(output, 2));
    await showEnd(cli, ended);
  }
  settle(cli, ended, () => `\`sandkasten workflow inspect ${id}${suffix}\` shows its steps.`);
}
