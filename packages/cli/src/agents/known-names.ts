/** Names of agents, workflows and runs for shell completion. */
import { readdir } from "node:fs/promises";
import { join, parse } from "node:path";
import type { Cli } from "../cli.ts";
import type { Candidate } from "../complete-words.ts";
import { findRunning } from "./agent-service.ts";

const RUNS = 50;
const FILES = {
  agent: { directory: "agents", pattern: /\.prompt$/ },
  workflow: { directory: "workflows", pattern: /\.ya?ml$/ },
} as const;

/** From the running service, or else from the file names here: loading the files would take too long. */
export async function knownToAgentService(cli: Cli, kind: string): Promise<readonly Candidate[]> {
  const { signal } = cli.interrupts;
  const client = (await findRunning(cli))?.client;
  switch (kind) {
    case "agent":
      if (client === undefined) return filesHere(cli, "agent");
      return (await client.agents({ signal })).map(({ name, description }) => ({
        word: name,
        about: description ?? "",
      }));
    case "workflow":
      if (client === undefined) return filesHere(cli, "workflow");
      return (await client.workflows({ signal })).map(({ id, name, description }) => ({
        word: id,
        about: description ?? name ?? "",
      }));
    case "agent run": {
      const page = await client?.runs({ limit: RUNS, signal });
      return (page?.runs ?? []).map((run) => ({
        word: run.run_id,
        about: `${run.status}, ${run.agent_name}`,
      }));
    }
    default: {
      const page = await client?.workflowRuns({ limit: RUNS, signal });
      return (page?.runs ?? []).map((run) => ({
        word: run.run_id,
        about: `${run.status}, ${run.workflow_id}`,
      }));
    }
  }
}

async function filesHere(cli: Cli, kind: "agent" | "workflow"): Promise<readonly Candidate[]> {
  const { directory, pattern } = FILES[kind];
  const names = await readdir(join(cli.host.workingDirectory, directory));
  return names
    .filter((name) => pattern.test(name))
    .map((name) => ({ word: parse(name).name, about: join(directory, name) }));
}
