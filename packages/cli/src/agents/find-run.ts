/** Finds runs by their id or an unambiguous prefix. */
import type { AgentServiceClient } from "@sandkasten/agents/client";
import type { Cli } from "../cli.ts";
import { findById } from "../find-by-id.ts";
import { readRuns } from "./run-pages.ts";

/** The full id of an agent's run. */
export async function agentRunId(
  cli: Cli,
  client: AgentServiceClient,
  given: string,
): Promise<string> {
  const { signal } = cli.interrupts;
  const found = await findById({
    kind: "run",
    given,
    get: (id) => client.run(id, { signal }),
    known: [
      async () => idsOf(await readRuns(Infinity, (page) => client.runs({ ...page, signal }))),
    ],
    notFound: "RUN_NOT_FOUND",
  });
  return found.run_id;
}

/** The full id of a workflow's run. */
export async function workflowRunId(
  cli: Cli,
  client: AgentServiceClient,
  given: string,
): Promise<string> {
  const { signal } = cli.interrupts;
  const found = await findById({
    kind: "run",
    given,
    get: (id) => client.workflowRun(id, { signal }),
    known: [
      async () =>
        idsOf(await readRuns(Infinity, (page) => client.workflowRuns({ ...page, signal }))),
    ],
    notFound: "RUN_NOT_FOUND",
  });
  return found.run_id;
}

function idsOf(runs: readonly { readonly run_id: string }[]): readonly string[] {
  return runs.map(({ run_id: id }) => id);
}
