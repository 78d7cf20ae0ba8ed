/** Finds runs by their id or an unambiguous prefix. */
import type { AgentServiceClient } from "@sandkasten/agents/client";
import type { Cli } from "../cli.ts";
import { findById } from "../find-by-id.ts";
import { readRuns } from "./run-pages.ts";

interface Run {
  readonly run_id: string;
}

/** The full id of an agent's run. */
export async function agentRunId(
  cli: Cli,
  client: AgentServiceClient,
  given: string,
): Promise<string> {
  const { signal } = cli.interrupts;
  return await runId(
    given,
    (id) => client.run(id, { signal }),
    () => readRuns(Infinity, (page) => client.runs({ ...page, signal })),
  );
}

/** The full id of a workflow's run. */
export async function workflowRunId(
  cli: Cli,
  client: AgentServiceClient,
  given: string,
): Promise<string> {
  const { signal } = cli.interrupts;
  return await runId(
    given,
    (id) => client.workflowRun(id, { signal }),
    () => readRuns(Infinity, (page) => client.workflowRuns({ ...page, signal })),
  );
}

async function runId(
  given: string,
  get: (id: string) => Promise<Run>,
  list: () => Promise<readonly Run[]>,
): Promise<string> {
  const known = async (): Promise<readonly string[]> => (await list()).map((run) => run.run_id);
  const found = await findById({
    kind: "run",
    given,
    get,
    known: [known],
    notFound: "RUN_NOT_FOUND",
  });
  return found.run_id;
}
