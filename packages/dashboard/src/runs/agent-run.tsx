/** One run of an agent: what it said and which tools it used, as it happens. */
import type { RunEventBody } from "@sandkasten/agents/client";
import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { dateTime, messageOf, timeOfDay } from "../parts/format.ts";
import { Failure } from "../parts/notice.tsx";
import { Status } from "../parts/status.tsx";
import { attempt } from "../parts/toasts.tsx";
import { useLoaded } from "../parts/use-loaded.ts";
import { JsonText } from "./json-text.tsx";
import type { RunProps } from "./workflow-run.tsx";

/** Parts of a text as it is written; the whole follows. */
const PIECES: ReadonlySet<string> = new Set(["text_delta", "text", "model_delta"]);

export function AgentRun({ agents, id, onChange }: RunProps): JSX.Element {
  const { value: run, failure, reload } = useLoaded((signal) => agents.run(id, { signal }), [id]);
  const [events, setEvents] = useState<readonly RunEventBody[]>([]);
  const [broken, setBroken] = useState<string | undefined>(undefined);
  useEffect(() => {
    const left = new AbortController();
    const follow = async (): Promise<void> => {
      for await (const event of agents.events(id, { signal: left.signal }))
        if (!PIECES.has(event.type)) setEvents((known) => [...known, event]);
      reload();
      onChange();
    };
    follow().catch((error: unknown) => {
      if (!left.signal.aborted) setBroken(messageOf(error));
    });
    return () => left.abort();
  }, [agents, id]);
  if (run === undefined) return <Failure of={failure} />;
  return (
    <article class="run scroll" tabIndex={0} aria-label={`Run of ${run.agent_name}`}>
      <header class="run-head">
        <h2>{run.agent_name}</h2>
        <Status of={run.status} />
        {(run.status === "running" || run.status === "queued") && (
          <button
            type="button"
            class="danger"
            onClick={() => attempt(() => agents.cancel(id), "Cancelled.")}
          >
            Cancel
          </button>
        )}
      </header>
      <p class="muted">
        <span class="mono">{id}</span> · {dateTime(run.created_at)} · {run.model ?? "no model"} ·{" "}
        {run.steps} turns · {run.usage.input_tokens} + {run.usage.output_tokens} tokens
      </p>
      {run.task !== undefined && <p class="task">{run.task}</p>}
      <Failure of={broken ?? run.error?.message} />
      <ol class="events">
        {events.map((event) => (
          <EventLine key={event.seq} event={event} />
        ))}
      </ol>
      {run.text !== undefined && <p class="answer">{run.text}</p>}
      <JsonText title="Output" value={run.output} />
    </article>
  );
}

function EventLine({ event }: { readonly event: RunEventBody }): JSX.Element {
  const { seq: _seq, time, type, ...rest } = event;
  return (
    <li>
      <time class="number muted">{timeOfDay(time)}</time>
      <span class="event-type">{type.replaceAll("_", " ")}</span>
      <span class="event-data muted">{summaryOf(rest)}</span>
    </li>
  );
}

function summaryOf(fields: Readonly<Record<string, unknown>>): string {
  const text = Object.entries(fields)
    .filter(([, value]) => value !== undefined)
    .map(([, value]) => (typeof value === "string" ? value : JSON.stringify(value)))
    .join(" · ");
  return text.length > 300 ? `${text.slice(0, 300)}…` : text;
}
