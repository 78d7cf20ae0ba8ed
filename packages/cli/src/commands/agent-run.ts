/** `sandkasten agent run`: runs an agent and shows what it does. */
import type { RunBody } from "@sandkasten/agents/client";
import type { Command } from "commander";
import {
  addDirOption,
  type AgentService,
  type DirOption,
  withAgentService,
} from "../agents/agent-service.ts";
import { AgentRunPrinter } from "../agents/agent-run-printer.ts";
import { followRun } from "../agents/follow-run.ts";
import { requireDaemon } from "../agents/require-daemon.ts";
import { INPUT_MEANING, readInput, readTask } from "../agents/run-input.ts";
import { settle, showEnd } from "../agents/run-outcome.ts";
import type { Cli } from "../cli.ts";
import { plainJson } from "../output/plain-text.ts";
import { formatDuration } from "../output/units.ts";

interface Options extends DirOption {
  readonly input?: string;
}

export function addAgentRunCommand(agent: Command, cli: Cli): void {
  const command = agent
    .command("run")
    .summary("run an agent")
    .description(
      "Runs an agent and shows its progress: the text of the model on stdout; tool calls and the output " +
        "of the sandbox on stderr. --json prints the finished run as one object on stdout. Ctrl-C " +
        "cancels the run. Exits with 0 if the run succeeded, 1 if it failed, 130 if it was cancelled.",
    )
    .argument("<agent>", "name of the agent: its file without .prompt, or its title")
    .argument("[task]", "the task; - reads it from stdin")
    .option("--input <json>", INPUT_MEANING);
  addDirOption(command).action(
    async (name: string, given: string | undefined, options: Options) => {
      const input = await readInput(cli, options.input);
      const task = await readTask(cli, given);
      await withAgentService(cli, options, "run", async (service) => {
        await requireDaemon(cli, service, [name]);
        await run(cli, service, name, { task, input });
      });
    },
  );
}

async function run(
  cli: Cli,
  service: AgentService,
  name: string,
  given: { readonly task: string | undefined; readonly input: unknown },
): Promise<void> {
  const { client } = service;
  // Starting is not aborted half-way: an unknown run would continue.
  const id = await client.execute(name, given);
  const printer = cli.wantsJson() ? undefined : new AgentRunPrinter(cli);
  await followRun(cli, {
    events: (options) => client.events(id, options),
    cancel: () => client.cancel(id),
    show: async (event) => printer?.show(event),
  });
  const ended = await client.run(id);
  if (cli.wantsJson()) await cli.out.line(plainJson(ended, 2));
  else await showEnd(cli, ended, factsOf(ended));
  settle(cli, ended, (code) => hintFor(code, ended, service));
}

function factsOf(run: RunBody): string {
  const { input_tokens: read, output_tokens: written } = run.usage;
  const turns = `${run.steps} ${run.steps === 1 ? "turn" : "turns"}`;
  const tookMs = Date.parse(run.ended_at ?? run.created_at) - Date.parse(run.created_at);
  return `${turns}, ${read} tokens in, ${written} out, ${formatDuration(tookMs)}`;
}

function hintFor(code: string, run: RunBody, service: AgentService): string {
  const where = service.isOwn ? ` --dir ${service.dir}` : "";
  switch (code) {
    case "MODEL_NOT_CONFIGURED":
      return service.isOwn
        ? ""
        : `The agent service at ${service.url} reads the variable when it starts.`;
    case "MAX_STEPS_EXCEEDED":
      return "Raise max_steps in the agent's file, or give it a smaller task.";
    case "TIMEOUT":
      return "Raise timeout_seconds in the agent's file, or give it a smaller task.";
    default:
      return `\`sandkasten agent logs ${run.run_id}${where}\` shows what it did.`;
  }
}
