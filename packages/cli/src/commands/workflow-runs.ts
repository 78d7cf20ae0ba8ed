/**
 * `sandkasten workflow runs`, `inspect`, `approve`, `reject` and `cancel`: past and current runs of
 * workflows.
 */
import type {
  WorkflowRunBody,
  WorkflowRunStatus,
  WorkflowStepBody,
} from "@sandkasten/agents/client";
import type { Command } from "commander";
import { addDirOption, type DirOption, withAgentService } from "../agents/agent-service.ts";
import { callSummary } from "../agents/call-summary.ts";
import { workflowRunId } from "../agents/find-run.ts";
import { addRunsOptions, readRuns, type RunsOptions } from "../agents/run-pages.ts";
import { paintStatus } from "../agents/run-status.ts";
import type { Cli } from "../cli.ts";
import { plainJson, plainText } from "../output/plain-text.ts";
import { type Column, printTable } from "../output/table.ts";
import { formatDuration, formatMoment } from "../output/units.ts";

const STATUSES: readonly WorkflowRunStatus[] = [
  "queued",
  "running",
  "waiting_approval",
  "needs_attention",
  "succeeded",
  "failed",
  "cancelled",
];
/** In a table, the beginning of a value is enough. */
const VALUE_CHARACTERS = 200;

export function addWorkflowRunsCommands(workflow: Command, cli: Cli): void {
  const { signal } = cli.interrupts;
  const runs = workflow
    .command("runs")
    .summary("list runs of workflows")
    .description("Lists the runs of workflows, newest first.")
    .option("--workflow <workflow>", "only runs of this workflow");
  addRunsOptions(runs, STATUSES).action(
    async (options: RunsOptions<WorkflowRunStatus> & { readonly workflow?: string }) => {
      await withAgentService(cli, options, "runs", async ({ client }) => {
        const found = await readRuns(options.limit, (page) =>
          client.workflowRuns({
            workflow: options.workflow,
            status: options.status,
            ...page,
            signal,
          }),
        );
        if (cli.wantsJson()) return cli.out.line(plainJson(found, 2));
        await printTable(cli.out, runColumns(cli, Date.now()), found);
      });
    },
  );

  const inspect = workflow
    .command("inspect")
    .summary("show a run of a workflow with its steps")
    .description("Shows the state of a run and of each of its steps.")
    .argument("<run>", "id of the run, or an unambiguous prefix");
  addDirOption(inspect).action(async (id: string, options: DirOption) => {
    await withAgentService(cli, options, "runs", async ({ client }) => {
      const run = await client.workflowRun(await workflowRunId(cli, client, id), { signal });
      if (cli.wantsJson()) return cli.out.line(plainJson(run, 2));
      await showRun(cli, run);
    });
  });

  addDecision(workflow, cli, "approve", "approve a run that waits for approval");
  addDecision(workflow, cli, "reject", "reject a run that waits for approval");

  const cancel = workflow
    .command("cancel")
    .summary("cancel runs of workflows")
    .description("Cancels runs. Their sandboxes are destroyed.")
    .argument("<run...>", "ids of the runs, or unambiguous prefixes");
  addDirOption(cancel).action(async (ids: readonly string[], options: DirOption) => {
    await withAgentService(cli, options, "runs", async ({ client, isOwn }) => {
      const cancelled: WorkflowRunBody[] = [];
      for (const given of ids) {
        const id = await workflowRunId(cli, client, given);
        await client.cancelWorkflow(id, { signal });
        // This process ends an abandoned run itself, so it must wait for that.
        if (isOwn) for await (const _ of client.workflowEvents(id, { signal }));
        cancelled.push(await client.workflowRun(id, { signal }));
        if (!cli.wantsJson()) await cli.out.line(plainText(id));
      }
      if (cli.wantsJson()) await cli.out.line(plainJson(cancelled, 2));
    });
  });
}

function addDecision(
  workflow: Command,
  cli: Cli,
  decision: "approve" | "reject",
  summary: string,
): void {
  const command = workflow
    .command(decision)
    .summary(summary)
    .description(`${summary.charAt(0).toUpperCase()}${summary.slice(1)}.`)
    .argument("<run>", "id of the run, or an unambiguous prefix")
    .argument("[step]", "id of the step; required if several steps wait")
    .option("--comment <text>", "comment to store with the decision");
  addDirOption(command).action(
    async (
      id: string,
      stepId: string | undefined,
      options: DirOption & { readonly comment?: string },
    ) => {
      const { comment } = options;
      await withAgentService(cli, options, "runs", async ({ client }) => {
        const { signal } = cli.interrupts;
        const runId = await workflowRunId(cli, client, id);
        const run = await client[decision](runId, { stepId, comment, signal });
        if (cli.wantsJson()) return cli.out.line(plainJson(run, 2));
        await cli.out.line(`${plainText(run.run_id)}\t${plainText(run.status)}`);
      });
    },
  );
}

async function showRun(cli: Cli, run: WorkflowRunBody): Promise<void> {
  const { style } = cli.out;
  const facts: readonly (readonly [string, string | undefined])[] = [
    ["run", run.run_id],
    ["workflow", run.workflow_id],
    ["status", run.status],
    ["created", run.created_at],
    ["ended", run.ended_at],
    ["reason", typeof run["reason"] === "string" ? run["reason"] : undefined],
    ["error", run.error?.message],
    ["output", run.output === undefined ? undefined : JSON.stringify(run.output)],
  ];
  for (const [name, value] of facts)
    if (value !== undefined) await cli.out.line(`${style.bold(name)}\t${plainText(value)}`);
  await cli.out.line();
  await printTable(cli.out, stepColumns(cli), run.steps ?? []);
}

function runColumns(cli: Cli, nowMs: number): readonly Column<WorkflowRunBody>[] {
  return [
    { head: "RUN", value: ({ run_id: id }) => id },
    { head: "WORKFLOW", value: ({ workflow_id: id }) => id },
    {
      head: "STATUS",
      value: ({ status }) => status,
      paint: (text, { status }) => paintStatus(cli.out.style, text, status),
    },
    {
      head: "CREATED",
      value: ({ created_at: created }) => created,
      shown: ({ created_at: created }) => formatMoment(created, nowMs),
    },
    {
      head: "INPUT",
      value: ({ input }) => callSummary(input, VALUE_CHARACTERS),
      elastic: true,
    },
  ];
}

function stepColumns(cli: Cli): readonly Column<WorkflowStepBody>[] {
  return [
    { head: "STEP", value: ({ id, path }) => (typeof path === "string" ? path : id) },
    { head: "TYPE", value: ({ type }) => type },
    {
      head: "STATUS",
      value: ({ status }) => status,
      paint: (text, { status }) => paintStatus(cli.out.style, text, status),
    },
    { head: "ATTEMPT", value: ({ attempt }) => String(attempt) },
    {
      head: "TOOK",
      value: (step) => String(tookMs(step) ?? ""),
      shown: (step) => {
        const ms = tookMs(step);
        return ms === undefined ? "" : formatDuration(ms);
      },
    },
    { head: "RUN", value: ({ agent_run_id: id }) => id ?? "" },
    {
      head: "OUTPUT",
      value: ({ error, output }) => error?.message ?? callSummary(output, VALUE_CHARACTERS),
      elastic: true,
    },
  ];
}

function tookMs({ started_at: from, ended_at: to }: WorkflowStepBody): number | undefined {
  return from === undefined || to === undefined ? undefined : Date.parse(to) - Date.parse(from);
}
