/** Runs of agents and workflows, and approvals that are pending. */
import type { AgentServiceClient } from "@sandkasten/agents/client";
import type { ComponentChildren, JSX } from "preact";
import { useEffect } from "preact/hooks";
import { since, timeOfDay } from "../parts/format.ts";
import { Icon } from "../parts/icons.tsx";
import { Failure, Loading } from "../parts/notice.tsx";
import { Status } from "../parts/status.tsx";
import { useLoaded } from "../parts/use-loaded.ts";
import { useTitle } from "../parts/use-title.ts";
import { linkTo } from "../routing.ts";
import { AgentRun } from "../runs/agent-run.tsx";
import { WorkflowRun } from "../runs/workflow-run.tsx";
import { onEvent } from "../state/feed.ts";
import { now } from "../state/visibility.ts";

export interface RunsPageProps {
  readonly agents: AgentServiceClient;
  readonly kind: string | undefined;
  readonly runId: string | undefined;
}

/**
 * Runs work in sandboxes, so their steps appear in the event feed; not every event changes a run.
 */
const SETTLE_MS = 400;

export function RunsPage({ agents, kind, runId }: RunsPageProps): JSX.Element {
  const listed = useLoaded(
    async (signal) => ({
      workflowRuns: (await agents.workflowRuns({ limit: 50, signal })).runs,
      runs: (await agents.runs({ limit: 50, signal })).runs,
    }),
    [agents],
  );
  const { reload } = listed;
  useEffect(() => {
    let timer: ReturnType<typeof setTimeout> | undefined;
    const stop = onEvent(() => {
      clearTimeout(timer);
      timer = setTimeout(reload, SETTLE_MS);
    });
    return () => {
      stop();
      clearTimeout(timer);
    };
  }, [reload]);
  useTitle("Runs");
  const { workflowRuns = [], runs = [] } = listed.value ?? {};
  const isLoading = listed.value === undefined && listed.failure === undefined;
  return (
    <div class={`page fill runs ${runId === undefined ? "" : "with-view"}`}>
      <div class="page-head">
        <h1>Runs</h1>
        <button type="button" class="plain" onClick={reload} aria-label="Refresh">
          <Icon name="refresh" />
        </button>
      </div>
      <Failure of={listed.failure} />
      <div class="runs-columns">
        <div class="runs-list scroll">
          {isLoading && <Loading />}
          <List title="Workflows" isEmpty={!isLoading && workflowRuns.length === 0}>
            {workflowRuns.map((run) => (
              <Line
                key={run.run_id}
                kind="workflow"
                run={run}
                name={run.workflow_id}
                openId={runId}
              />
            ))}
          </List>
          <List title="Agents" isEmpty={!isLoading && runs.length === 0}>
            {runs.map((run) => (
              <Line key={run.run_id} kind="agent" run={run} name={run.agent_name} openId={runId} />
            ))}
          </List>
        </div>
        {runId !== undefined && kind === "workflow" && (
          <WorkflowRun key={runId} agents={agents} id={runId} onChange={reload} />
        )}
        {runId !== undefined && kind === "agent" && (
          <AgentRun key={runId} agents={agents} id={runId} onChange={reload} />
        )}
      </div>
    </div>
  );
}

function List(props: {
  readonly title: string;
  readonly isEmpty: boolean;
  readonly children: ComponentChildren;
}): JSX.Element {
  return (
    <section>
      <h2>{props.title}</h2>
      {props.isEmpty ? (
        <p class="muted">No runs yet.</p>
      ) : (
        <ul class="entries">{props.children}</ul>
      )}
    </section>
  );
}

interface LineProps {
  readonly kind: "agent" | "workflow";
  readonly run: { readonly run_id: string; readonly status: string; readonly created_at: string };
  /** Of the agent or workflow. */
  readonly name: string;
  /** The run that the page shows. */
  readonly openId: string | undefined;
}

function Line({ kind, run, name, openId }: LineProps): JSX.Element {
  const { run_id: id, status, created_at: at } = run;
  const isOpen = id === openId;
  return (
    <li class={isOpen ? "open" : ""}>
      <a class="entry" href={linkTo("runs", kind, id)} aria-current={isOpen ? "true" : undefined}>
        <Status of={status} />
        <span class="entry-name">{name}</span>
        <span class="muted number" title={timeOfDay(at)}>
          {since(at, now.value)} ago
        </span>
      </a>
    </li>
  );
}
