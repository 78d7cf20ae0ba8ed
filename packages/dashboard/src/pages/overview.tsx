/** The daemon as a whole: numbers over time, the pool, and recent events. */
import type { SandboxEvent } from "@sandkasten/sdk";
import type { JSX } from "preact";
import { useEffect } from "preact/hooks";
import { Card } from "../parts/card.tsx";
import { Chart } from "../parts/chart.tsx";
import { shortId, timeOfDay } from "../parts/format.ts";
import { Empty } from "../parts/notice.tsx";
import { useTitle } from "../parts/use-title.ts";
import { linkTo } from "../routing.ts";
import { recentEvents } from "../state/feed.ts";
import { gauges, sampleGauges } from "../state/gauges.ts";
import { sessions } from "../state/sessions.ts";
import { isVisible } from "../state/visibility.ts";

const CHARTS = [
  ["Running sessions", 'sandkasten_sessions{status="running"}', "count"],
  ["Running commands", "sandkasten_running_execs", "count"],
  ["Sandboxes ready in the pool", "sandkasten_pooled_sandboxes", "count"],
  ["Sessions waiting to be created", "sandkasten_waiting_creates", "count"],
  ["Outbound connections", "sandkasten_egress_open_connections", "count"],
  ["Command output on disk", "sandkasten_journal_bytes", "bytes"],
] as const;

const STATES = ["running", "paused", "creating", "crashed"] as const;

export function OverviewPage(): JSX.Element {
  useTitle("Overview");
  const isSeen = isVisible.value;
  useEffect(() => {
    if (!isSeen) return undefined;
    const left = new AbortController();
    void sampleGauges(left.signal);
    return () => left.abort();
  }, [isSeen]);
  const samples = gauges.value;
  const count = (status: string): string =>
    String(sessions.value.filter((session) => session.status === status).length);
  return (
    <div class="page scroll" tabIndex={0}>
      <div class="page-head">
        <h1>Overview</h1>
      </div>
      <h2>Your sessions</h2>
      <div class="cards">
        {STATES.map((status) => (
          <Card key={status} title={status} text={count(status)} />
        ))}
      </div>
      <h2>The daemon</h2>
      {samples === undefined ? (
        <p class="muted">
          Only a key with the scope <code>admin</code> can see the daemon's charts.
        </p>
      ) : (
        <div class="charts">
          {CHARTS.map(([title, name, unit]) => (
            <Chart
              key={name}
              title={title}
              unit={unit}
              points={samples.map(({ atMs, values }) => ({ atMs, value: values.get(name) ?? 0 }))}
            />
          ))}
        </div>
      )}
      <h2>Events</h2>
      {recentEvents.value.length === 0 ? (
        <Empty>Nothing has happened since this page was opened.</Empty>
      ) : (
        <ol class="events">
          {recentEvents.value.map((event) => (
            <EventLine key={event.id} event={event} />
          ))}
        </ol>
      )}
    </div>
  );
}

function EventLine({ event }: { readonly event: SandboxEvent }): JSX.Element {
  const { type, time, sessionId, data } = event;
  return (
    <li>
      <time class="number muted">{timeOfDay(time)}</time>
      <span class="event-type">{type}</span>
      {sessionId !== undefined && (
        <a class="mono" href={linkTo("sessions", sessionId)}>
          {shortId(sessionId)}
        </a>
      )}
      <span class="muted event-data">{summaryOf(data)}</span>
    </li>
  );
}

function summaryOf(data: Readonly<Record<string, unknown>>): string {
  return Object.entries(data)
    .filter(([, value]) => typeof value !== "object")
    .map(([name, value]) => `${name} ${String(value)}`)
    .join(" · ");
}
