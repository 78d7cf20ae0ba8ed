/** `sandkasten agent runs`, `logs` and `cancel`: past and current runs of agents. */
import type { AgentServiceClient, RunBody, RunStatus } from "@sandkasten/agents/client";
import type { Command } from "commander";
import { AgentRunPrinter } from "../agents/agent-run-printer.ts";
import { addDirOption, type DirOption, withAgentService } from "../agents/agent-service.ts";
import { callSummary } from "../agents/call-summary.ts";
import { agentRunId } from "../agents/find-run.ts";
import { addRunsOptions, readRuns, type RunsOptions } from "../agents/run-pages.ts";
import { paintStatus } from "../agents/run-status.ts";
import type { Cli } from "../cli.ts";
import { plainJson, plainText } from "../output/plain-text.ts";
import { type Column, printTable } from "../output/table.ts";
import { formatMoment } from "../output/units.ts";

const STATUSES: readonly RunStatus[] = ["queued", "running", "succeeded", "failed", "cancelled"];
/** In a table, the beginning of a task is enough. */
const TASK_CHARACTERS = 200;

export function addAgentRunsCommands(agent: Command, cli: Cli): void {
  const { signal } = cli.interrupts;
  const runs = agent
    .command("runs")
    .summary("list runs of agents")
    .description("Lists the runs of agents, newest first, including those of workflows.")
    .option("--agent <agent>", "only runs of this agent");
  addRunsOptions(runs, STATUSES).action(
    async (options: RunsOptions<RunStatus> & { readonly agent?: string }) => {
      await withAgentService(cli, options, "runs", async ({ client }) => {
        const found = await readRuns(options.limit, (page) =>
          client.runs({ agent: options.agent, status: options.status, ...page, signal }),
        );
        if (cli.wantsJson()) return cli.out.line(plainJson(found, 2));
        await printTable(cli.out, columns(cli, Date.now()), found);
      });
    },
  );

  const logs = agent
    .command("logs")
    .summary("show the events of a run")
    .description(
      "Shows a run as `agent run` does: the text on stdout, tool calls and the output of its sandbox on stderr. --json prints one line per event.",
    )
    .argument("<run>", "id of the run, or an unambiguous prefix")
    .option("-f, --follow", "keep streaming until the run ends");
  addDirOption(logs).action(
    async (id: string, options: DirOption & { readonly follow?: boolean }) => {
      await withAgentService(cli, options, "runs", async ({ client }) =>
        showLogs(cli, client, await agentRunId(cli, client, id), options.follow === true),
      );
    },
  );

  const cancel = agent
    .command("cancel")
    .summary("cancel runs of agents")
    .description("Cancels runs. Their sandboxes are destroyed.")
    .argument("<run...>", "ids of the runs, or unambiguous prefixes");
  addDirOption(cancel).action(async (ids: readonly string[], options: DirOption) => {
    await withAgentService(cli, options, "runs", async ({ client }) => {
      const cancelled: RunBody[] = [];
      for (const given of ids) {
        const id = await agentRunId(cli, client, given);
        cancelled.push(await client.cancel(id, { signal }));
        if (!cli.wantsJson()) await cli.out.line(plainText(id));
      }
      if (cli.wantsJson()) await cli.out.line(plainJson(cancelled, 2));
    });
  });
}

async function showLogs(
  cli: Cli,
  client: AgentServiceClient,
  id: string,
  follow: boolean,
): Promise<void> {
  const { signal } = cli.interrupts;
  const printer = new AgentRunPrinter(cli);
  const events = follow ? client.events(id, { signal }) : eventsSoFar(client, id, signal);
  for await (const event of events)
    if (cli.wantsJson()) await cli.out.line(plainJson(event));
    else await printer.show(event);
}

async function* eventsSoFar(client: AgentServiceClient, id: string, signal: AbortSignal) {
  let cursor = 0;
  for (;;) {
    const page = await client.eventPage(id, { cursor, signal });
    yield* page.events;
    if (page.events.length === 0 || page.done) return;
    cursor = page.next_cursor;
  }
}

function columns(cli: Cli, nowMs: number): readonly Column<RunBody>[] {
  return [
    { head: "RUN", value: ({ run_id: id }) => id },
    { head: "AGENT", value: ({ agent_name: name }) => name },
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
    { head: "TURNS", value: ({ steps }) => String(steps) },
    {
      head: "TOKENS",
      value: ({ usage }) => String(usage.input_tokens + usage.output_tokens),
    },
    {
      head: "TASK",
      value: ({ task, input }) => callSummary(task ?? input, TASK_CHARACTERS),
      elastic: true,
    },
  ];
}
