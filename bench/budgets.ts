/** The budgets, and how measurements are compared with them. */
import { MIB } from "./bench-machine.ts";
import { DOCKER_FILE_OPERATIONS, WORKSPACE_STRATEGIES } from "./scenarios/docker-files.ts";
import { TOOL_CALLS } from "./scenarios/tool-calls.ts";
import { seriesKey } from "./series.ts";
import type { Series } from "./series.ts";
import { percentile, ratio } from "./statistics.ts";

/** Every budget is a ratio: to another series of the same run, or to a fixed size or time. */
export interface Budget {
  readonly what: string;
  /** `scenario/name` of the measured series. */
  readonly subject: string;
  readonly share: number;
  readonly against:
    | { readonly series: string }
    | { readonly bytes: number }
    | { readonly us: number };
  readonly atMost: number;
}

const MEDIAN = 0.5;
const ALMOST_ALL = 0.95;
const WORST = 1;
const SECOND_US = 1_000_000;

export const BUDGETS: readonly Budget[] = [
  {
    what: "the dashboard loads < 300 KB until the sessions are shown",
    subject: "dashboard/first load",
    share: WORST,
    against: { bytes: 300_000 },
    atMost: 1,
  },
  {
    what: "the dashboard can be used ≤ 1 s after it was opened",
    subject: "dashboard/sign-in",
    share: MEDIAN,
    against: { us: SECOND_US },
    atMost: 1,
  },
  {
    what: "the dashboard can be used ≤ 4 × as late as a static page",
    subject: "dashboard/sign-in",
    share: MEDIAN,
    against: { series: "dashboard/static page" },
    atMost: 4,
  },
  {
    what: "warm create + first exec over HTTP ≤ 1/50 of docker run",
    subject: "warm create/HTTP, warm, first true",
    share: MEDIAN,
    against: { series: "warm create/docker run" },
    atMost: 1 / 50,
  },
  {
    what: "cold create with crun, to the first ping ≤ 1/7 of docker run",
    subject: "cold create/crun, ping",
    share: MEDIAN,
    against: { series: "cold create/docker run" },
    atMost: 1 / 7,
  },
  {
    what: "cold create with crun, to the first ping ≤ 3 × bwrap",
    subject: "cold create/crun, ping",
    share: MEDIAN,
    against: { series: "cold create/bwrap" },
    atMost: 3,
  },
  {
    what: "a session from the pool over HTTP ≤ 4 × an empty request",
    subject: "warm create/HTTP, warm, created",
    share: MEDIAN,
    against: { series: "warm create/HTTP, healthz" },
    atMost: 4,
  },
  {
    what: "100 creates at once: the first is ready within 2 × a lone create",
    subject: "create burst/HTTP, first ready",
    share: MEDIAN,
    against: { series: "create burst/HTTP, lone create, first true" },
    atMost: 2,
  },
  {
    what: "100 creates at once: all are ready within 60 × a lone create",
    subject: "create burst/HTTP, all ready",
    share: MEDIAN,
    against: { series: "create burst/HTTP, lone create, first true" },
    atMost: 60,
  },
  {
    what: "100 creates at once: commands of a living session, p95 ≤ 5 × idle",
    subject: "create burst/HTTP, living session, meanwhile",
    share: ALMOST_ALL,
    against: { series: "create burst/HTTP, living session, idle" },
    atMost: 5,
  },
  {
    what: "50 agent runs at once ≤ 2 × the same sandbox calls of 50 SDK clients",
    subject: "agent runs/agents, all at once",
    share: MEDIAN,
    against: { series: "agent runs/SDK, all at once" },
    atMost: 2,
  },
  {
    what: "telemetry that is off: its hooks take ≤ 1 % of exec true",
    subject: "telemetry/hooks of one command, off",
    share: MEDIAN,
    against: { series: "telemetry/HTTP, shell, true, no hooks" },
    atMost: 0.01,
  },
  {
    what: "telemetry that is on: its hooks and what they send take ≤ 5 % of exec true",
    subject: "telemetry/hooks of one command, on",
    share: MEDIAN,
    against: { series: "telemetry/HTTP, shell, true, no hooks" },
    atMost: 0.05,
  },
  {
    what: "processor time of exec true with spans and metrics sent ≤ 1.05 × without",
    subject: "telemetry/processor time of true, on",
    share: MEDIAN,
    against: { series: "telemetry/processor time of true, off" },
    atMost: 1.05,
  },
  {
    what: "exec true in the shell over HTTP ≤ 1/100 of docker exec",
    subject: "exec true/HTTP, shell, true",
    share: MEDIAN,
    against: { series: "exec true/docker exec" },
    atMost: 1 / 100,
  },
  {
    what: "exec true in the shell over HTTP ≤ 2.5 × an empty request",
    subject: "exec true/HTTP, shell, true",
    share: MEDIAN,
    against: { series: "exec true/HTTP, healthz" },
    atMost: 2.5,
  },
  {
    what: "stats over HTTP ≤ 3 × an empty request",
    subject: "exec true/HTTP, stats",
    share: MEDIAN,
    against: { series: "exec true/HTTP, healthz" },
    atMost: 3,
  },
  {
    what: "exec true in the shell over HTTP ≤ 3 × a bare fork+exec+wait",
    subject: "exec true/HTTP, shell, true",
    share: MEDIAN,
    against: { series: "exec true/fork+exec+wait" },
    atMost: 3,
  },
  {
    what: "exec true over HTTP among 1,000 sessions in Postgres ≤ 1.3 × in SQLite",
    subject: "stores/Postgres, HTTP, shell, true",
    share: MEDIAN,
    against: { series: "stores/SQLite, HTTP, shell, true" },
    atMost: 1.3,
  },
  {
    what: "1 KB file write + read over HTTP ≤ 1.2 × exec true over HTTP",
    subject: "1 KB file/HTTP, write + read",
    share: MEDIAN,
    against: { series: "1 KB file/HTTP, shell, true" },
    atMost: 1.2,
  },
  {
    what: "100 MB file up ≤ 1.3 × the same to a plain HTTP server and a pipe",
    subject: "100 MB file/HTTP, up",
    share: MEDIAN,
    against: { series: "100 MB file/plain HTTP, up" },
    atMost: 1.3,
  },
  {
    what: "100 MB file down ≤ 1.3 × the same from a plain HTTP server and a pipe",
    subject: "100 MB file/HTTP, down",
    share: MEDIAN,
    against: { series: "100 MB file/plain HTTP, down" },
    atMost: 1.3,
  },
  {
    what: "1 GB out of a sandbox's network takes ≤ 3 × as long as over plain loopback",
    subject: "gateway/gateway, download",
    share: MEDIAN,
    against: { series: "gateway/loopback, download" },
    atMost: 3,
  },
  {
    what: "a connection out of a sandbox is set up within 5 ms",
    subject: "gateway/gateway, connection",
    share: MEDIAN,
    against: { us: 5_000 },
    atMost: 1,
  },
  {
    what: "1 GB out of a sandbox's network grows the gateway by < 32 MB",
    subject: "gateway/growth of RSS, gateway",
    share: WORST,
    against: { bytes: 32 * MIB },
    atMost: 1,
  },
  {
    what: "1 GB of stdout streamed over HTTP ≥ 0.8 of the throughput of collected",
    subject: "1 GB stdout/HTTP, streamed",
    share: MEDIAN,
    against: { series: "1 GB stdout/HTTP, collected" },
    atMost: 1 / 0.8,
  },
  {
    what: "1 GB of stdout, streamed, grows the daemon by < 16 MB",
    subject: "1 GB stdout/growth of RSS, HTTP, streamed",
    share: WORST,
    against: { bytes: 16 * MIB },
    atMost: 1,
  },
  {
    what: "1 GB of stdout, collected, grows the daemon by < 16 MB",
    subject: "1 GB stdout/growth of RSS, HTTP, collected",
    share: WORST,
    against: { bytes: 16 * MIB },
    atMost: 1,
  },
  {
    what: "an idle sandbox takes ≤ 4 MB in all",
    subject: "idle sandbox/in all",
    share: MEDIAN,
    against: { bytes: 4 * MIB },
    atMost: 1,
  },
  {
    what: "exec true among many idle sandboxes ≤ 1.5 × that beside them, with one",
    subject: "density/exec true, all",
    share: MEDIAN,
    against: { series: "density/exec true, one beside all" },
    atMost: 1.5,
  },
  {
    what: "a daemon with one sandbox listens within 1.2 s of its start",
    subject: "density/restart, one",
    share: MEDIAN,
    against: { us: 1.2 * SECOND_US },
    atMost: 1,
  },
  {
    what: "restart with many sandboxes, all adopted: listening in ≤ 2 s",
    subject: "density/restart, all",
    share: MEDIAN,
    against: { us: 2 * SECOND_US },
    atMost: 1,
  },
  {
    what: "a workflow of 100 steps without models: ≤ 5 ms a step",
    subject: "workflow steps/workflow, one step",
    share: MEDIAN,
    against: { us: 5000 },
    atMost: 1,
  },
  {
    what: "a workflow's step ≤ 20 × the same writes to SQLite alone",
    subject: "workflow steps/workflow, one step",
    share: MEDIAN,
    against: { series: "workflow steps/SQLite alone, one step" },
    atMost: 20,
  },
  ...TOOL_CALLS.map((call) => ({
    what: `${call} by an agent's tool ≤ 1.2 × the same call of the SDK`,
    subject: `tool calls/tool, ${call}`,
    share: MEDIAN,
    against: { series: `tool calls/SDK, ${call}` },
    atMost: 1.2,
  })),
  ...WORKSPACE_STRATEGIES.flatMap((strategy) =>
    DOCKER_FILE_OPERATIONS.map((operation) => ({
      what: `${operation} on Docker by ${strategy}: p95 < 500 ms`,
      subject: `docker files/${strategy}, ${operation}`,
      share: ALMOST_ALL,
      against: { us: SECOND_US / 2 },
      atMost: 1,
    })),
  ),
];

export type Verdict = { readonly budget: Budget } & (
  | { readonly kept: boolean; readonly ratio: number }
  | { readonly kept: undefined; readonly missing: string }
);

/**
 * Compares the measurements with the budgets; a budget without its series is reported as missing,
 * never as met.
 */
export function judge(budgets: readonly Budget[], measured: readonly Series[]): Verdict[] {
  const byKey = new Map(
    measured.filter(({ samples }) => samples.length > 0).map((one) => [seriesKey(one), one]),
  );
  return budgets.map((budget) => {
    const { against, subject, share, atMost } = budget;
    const needed = "series" in against ? [subject, against.series] : [subject];
    const missing = needed.find((key) => !byKey.has(key));
    if (missing !== undefined) return { budget, kept: undefined, missing };
    const value = (key: string): number => percentile(byKey.get(key)?.samples ?? [], share);
    const baseline = "series" in against ? value(against.series) : fixed(against);
    const actual = ratio(value(subject), baseline);
    return { budget, kept: actual <= atMost, ratio: actual };
  });
}

function fixed(against: { readonly bytes: number } | { readonly us: number }): number {
  return "bytes" in against ? against.bytes : against.us;
}
