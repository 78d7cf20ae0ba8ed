/** One run of an agent: its text and tool calls, as they happen. */
import type { RunBody } from "@sandkasten/agents/client";
import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { dateTime, duration, messageOf, timeOfDay } from "../parts/format.ts";
import { Failure, Loading } from "../parts/notice.tsx";
import { Status } from "../parts/status.tsx";
import { attempt } from "../parts/toasts.tsx";
import { useLoaded } from "../parts/use-loaded.ts";
import { linkTo } from "../routing.ts";
import { JsonText } from "./json-text.tsx";
import { RunHead, type RunProps } from "./run-head.tsx";
import { type Entry, summaryOf, type ToolCall, withEvent } from "./transcript.ts";

export function AgentRun({ agents, id, onChange }: RunProps): JSX.Element {
  const { value: run, failure, reload } = useLoaded((signal) => agents.run(id, { signal }), [id]);
  const [entries, setEntries] = useState<readonly Entry[]>([]);
  const [broken, setBroken] = useState<string | undefined>(undefined);
  useEffect(() => {
    const left = new AbortController();
    const follow = async (): Promise<void> => {
      for await (const event of agents.events(id, { signal: left.signal })) {
        setEntries((known) => withEvent(known, event));
        // The header shows the number of turns.
        if (event.type === "turn") reload();
      }
      reload();
      onChange();
    };
    follow().catch((error: unknown) => {
      if (!left.signal.aborted) setBroken(messageOf(error));
    });
    return () => left.abort();
  }, [agents, id]);
  if (run === undefined) return failure === undefined ? <Loading /> : <Failure of={failure} />;
  const isActive = run.status === "running" || run.status === "queued";
  return (
    <article class="run scroll" tabIndex={0} aria-label={`Run of ${run.agent_name}`}>
      <RunHead name={run.agent_name} status={run.status}>
        {isActive && (
          <button
            type="button"
            class="danger"
            onClick={() => attempt(() => agents.cancel(id), "Cancelled.")}
          >
            Cancel
          </button>
        )}
      </RunHead>
      <p class="muted">{factsOf(run)}</p>
      {run.task !== undefined && <p class="task">{run.task}</p>}
      <ol class="transcript">
        {entries.map((entry) => (
          <EntryView key={entry.seq} entry={entry} />
        ))}
      </ol>
      <Failure of={broken ?? run.error?.message} />
      {isActive && <Loading text="Working…" />}
      <JsonText title="Output" value={run.output === run.text ? undefined : run.output} />
    </article>
  );
}

function factsOf(run: RunBody): string {
  const { created_at: at, model, steps, usage } = run;
  const tokens = usage.input_tokens + usage.output_tokens;
  return [
    dateTime(at),
    model ?? "no model",
    `${steps} ${steps === 1 ? "turn" : "turns"}`,
    ...(tokens === 0 ? [] : [`${usage.input_tokens} tokens in, ${usage.output_tokens} out`]),
  ].join(" · ");
}

function EntryView({ entry }: { readonly entry: Entry }): JSX.Element {
  return (
    <li class={entry.kind} title={timeOfDay(entry.time)}>
      {entry.kind === "call" ? <CallView call={entry} /> : <p>{entry.text}</p>}
    </li>
  );
}

function CallView({ call }: { readonly call: ToolCall }): JSX.Element {
  const { tool, input, printed, result, runId } = call;
  const state = result === undefined ? "running" : result.isError ? "failed" : "succeeded";
  return (
    <>
      <div class="step-line">
        <Status of={state} />
        <strong>{tool}</strong>
        <code class="call-input">{summaryOf(input)}</code>
        {runId !== undefined && <a href={linkTo("runs", "agent", runId)}>Agent run</a>}
        {result !== undefined && <span class="muted number">{duration(result.ms)}</span>}
      </div>
      {printed !== "" && (
        <pre class="mono printed" tabIndex={0}>
          {printed}
        </pre>
      )}
      <JsonText title="Input" value={input} />
      <JsonText title="Result" value={result?.output} />
    </>
  );
}
