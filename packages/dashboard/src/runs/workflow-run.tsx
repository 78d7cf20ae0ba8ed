/** One run of a workflow: its steps, and the buttons for pending decisions. */
import type { WorkflowRunBody, WorkflowStepBody } from "@sandkasten/agents/client";
import type { JSX, TargetedSubmitEvent } from "preact";
import { useEffect } from "preact/hooks";
import { textIn } from "../parts/form-text.ts";
import { dateTime, duration, messageOf } from "../parts/format.ts";
import { Icon } from "../parts/icons.tsx";
import { Failure, Loading } from "../parts/notice.tsx";
import { Status } from "../parts/status.tsx";
import { attempt } from "../parts/toasts.tsx";
import { useLoaded } from "../parts/use-loaded.ts";
import { linkTo } from "../routing.ts";
import { JsonText } from "./json-text.tsx";
import { RunHead, type RunProps } from "./run-head.tsx";

const ENDED: ReadonlySet<string> = new Set(["succeeded", "failed", "cancelled"]);

export function WorkflowRun({ agents, id, onChange }: RunProps): JSX.Element {
  const {
    value: run,
    failure,
    reload,
  } = useLoaded((signal) => agents.workflowRun(id, { signal }), [agents, id]);
  useEffect(() => {
    const left = new AbortController();
    const follow = async (): Promise<void> => {
      for await (const _event of agents.workflowEvents(id, { signal: left.signal })) {
        reload();
        onChange();
      }
    };
    // Loading the run reports the same failure.
    follow().catch(() => undefined);
    return () => left.abort();
  }, [agents, id]);
  if (run === undefined) return failure === undefined ? <Loading /> : <Failure of={failure} />;
  const act = (work: () => Promise<WorkflowRunBody>, done: string): void =>
    attempt(async () => {
      await work();
      reload();
      onChange();
    }, done);
  return (
    <article class="run scroll" tabIndex={0} aria-label={`Run of ${run.workflow_id}`}>
      <RunHead name={run.workflow_id} status={run.status}>
        {run.status === "needs_attention" && (
          <button type="button" onClick={() => act(() => agents.resume(id), "Resumed.")}>
            Resume
          </button>
        )}
        {!ENDED.has(run.status) && (
          <button
            type="button"
            class="danger"
            onClick={() => act(() => agents.cancelWorkflow(id), "Cancelled.")}
          >
            Cancel
          </button>
        )}
      </RunHead>
      <p class="muted">
        {dateTime(run.created_at)} · <span class="mono">{id}</span>
      </p>
      {run.error !== undefined && <Failure of={messageOf(new Error(run.error.message))} />}
      <ol class="steps">
        {run.steps?.map((step) => (
          <Step
            key={`${String(step["path"])} ${step.attempt}`}
            step={step}
            onDecide={(approved, comment) =>
              act(
                () => agents[approved ? "approve" : "reject"](id, { stepId: step.id, comment }),
                approved ? "Approved." : "Rejected.",
              )
            }
          />
        ))}
      </ol>
      <JsonText title="Input" value={run.input} />
      <JsonText title="Output" value={run.output} />
    </article>
  );
}

interface StepProps {
  readonly step: WorkflowStepBody;
  readonly onDecide: (approved: boolean, comment: string | undefined) => void;
}

function Step({ step, onDecide }: StepProps): JSX.Element {
  const { id, type, status, attempt: tries, error, output, agent_run_id: agentRun } = step;
  const isWaiting = status === "waiting_approval" || status === "waiting";
  return (
    <li class="step">
      <div class="step-line">
        <Status of={status} />
        <strong>{id}</strong>
        <span class="muted">
          {type}
          {tries > 1 && ` · attempt ${tries}`}
          {timeOf(step)}
        </span>
        {agentRun !== undefined && <a href={linkTo("runs", "agent", agentRun)}>Agent run</a>}
      </div>
      {typeof step["message"] === "string" && <p class="step-message">{step["message"]}</p>}
      {error !== undefined && <p class="failure">{error.message}</p>}
      {isWaiting && type === "approval" && <Decision onDecide={onDecide} />}
      <JsonText title="Output" value={output} />
    </li>
  );
}

/** The duration, once it is over. */
function timeOf({ started_at: from, ended_at: to }: WorkflowStepBody): string {
  if (from === undefined || to === undefined) return "";
  return ` · ${duration(Date.parse(to) - Date.parse(from))}`;
}

function Decision({ onDecide }: Pick<StepProps, "onDecide">): JSX.Element {
  const decide = (event: TargetedSubmitEvent<HTMLFormElement>): void => {
    event.preventDefault();
    const comment = textIn(event.currentTarget, "comment");
    const approved = (event.submitter as HTMLButtonElement | null)?.value !== "reject";
    onDecide(approved, comment === "" ? undefined : comment);
  };
  return (
    <form class="decision" onSubmit={decide}>
      <input name="comment" placeholder="Comment (optional)" aria-label="Comment" />
      <button type="submit" class="primary" value="approve">
        <Icon name="check" /> Approve
      </button>
      <button type="submit" class="danger" value="reject">
        <Icon name="cross" /> Reject
      </button>
    </form>
  );
}
