/** `sandkasten agent list`, `show` and `validate`: the agents of a directory. */
import type { AgentDetails, AgentSummary } from "@sandkasten/agents/client";
import type { Command } from "commander";
import { addDirOption, type DirOption, withAgentService } from "../agents/agent-service.ts";
import { reportFiles } from "../agents/validation.ts";
import type { Cli } from "../cli.ts";
import { plainJson, plainProse, plainText } from "../output/plain-text.ts";
import { type Column, printTable } from "../output/table.ts";

export function addAgentFilesCommands(agent: Command, cli: Cli): void {
  const { signal } = cli.interrupts;
  const list = agent
    .command("list")
    .summary("list agents")
    .description("Lists the agents, including those with invalid files.");
  addDirOption(list).action(async (options: DirOption) => {
    await withAgentService(cli, options, "files", async ({ client }) => {
      const agents = await client.agents({ signal });
      if (cli.wantsJson()) return cli.out.line(plainJson(agents, 2));
      if (agents.length === 0)
        return cli.err.line("There are no agents yet. Add one as agents/NAME.prompt.");
      await printTable(cli.out, columns(cli), agents);
    });
  });

  const show = agent
    .command("show")
    .summary("show an agent")
    .description("Shows an agent: its model, sandbox, tools, limits, schemas and prompt.")
    .argument("<agent>", "name of the agent: its file without .prompt, or its title");
  addDirOption(show).action(async (name: string, options: DirOption) => {
    await withAgentService(cli, options, "files", async ({ client }) => {
      const details = await client.agent(name, { signal });
      if (cli.wantsJson()) return cli.out.line(plainJson(details, 2));
      await showDetails(cli, details);
    });
  });

  const validate = agent
    .command("validate")
    .summary("check the files of agents")
    .description(
      "Checks the files of all agents, or of one. Prints each problem as FILE:LINE:COLUMN and exits with 1 if there is one.",
    )
    .argument("[agent]", "name of the agent");
  addDirOption(validate).action(async (name: string | undefined, options: DirOption) => {
    await withAgentService(cli, options, "files", async ({ client }) => {
      const agents =
        name === undefined
          ? await client.agents({ signal })
          : [await client.agent(name, { signal })];
      await reportFiles(cli, agents, "agents");
    });
  });
}

function columns(cli: Cli): readonly Column<AgentSummary>[] {
  const { style } = cli.out;
  return [
    { head: "AGENT", value: ({ name }) => name },
    { head: "TITLE", value: ({ title }) => title ?? "" },
    { head: "MODEL", value: ({ model }) => model ?? "" },
    { head: "SANDBOX", value: ({ mode }) => mode },
    {
      head: "ABOUT",
      value: ({ error, description }) => error ?? description ?? "",
      paint: (text, { error }) => (error === undefined ? text : style.red(text)),
      elastic: true,
    },
  ];
}

async function showDetails(cli: Cli, agent: AgentDetails): Promise<void> {
  const { bold } = cli.out.style;
  const facts: readonly (readonly [string, string | undefined])[] = [
    ["agent", agent.name],
    ["title", agent.title],
    ["about", agent.description],
    ["file", agent.file],
    ["error", agent.error],
    ["model", agent.model],
    ["sandbox", agent.sandbox === undefined ? agent.mode : JSON.stringify(agent.sandbox)],
    ["tools", agent.tools.join(", ")],
    ["agents", agent.agents.join(", ")],
    ["mcp", agent.mcp.join(", ")],
    ["max steps", String(agent.max_steps)],
    ["timeout", `${agent.timeout_seconds}s`],
    ["input", agent.input_schema && JSON.stringify(agent.input_schema)],
    ["output", agent.output_schema && JSON.stringify(agent.output_schema)],
  ];
  for (const [name, value] of facts)
    if (value !== undefined && value !== "")
      await cli.out.line(`${bold(name)}\t${plainText(value)}`);
  await cli.out.line(`\n${plainProse(agent.prompt.trim())}`);
}
