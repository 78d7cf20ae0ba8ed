/** The Grafana dashboard only queries existing metrics and labels. */
import { readFile } from "node:fs/promises";
import { prometheusText } from "@sandkasten/telemetry";
import { expect, it } from "vitest";
import { AgentMetrics } from "../../packages/agents/src/telemetry/agent-metrics.ts";
import { DaemonMetrics } from "../../packages/daemon/src/telemetry/daemon-metrics.ts";

interface Panel {
  readonly id: number;
  readonly title: string;
  readonly gridPos: {
    readonly h: number;
    readonly w: number;
    readonly x: number;
    readonly y: number;
  };
  readonly targets: readonly { readonly expr: string }[];
}

/** The labels of each metric, after everything has happened once. */
async function knownSeries(): Promise<ReadonlyMap<string, ReadonlySet<string>>> {
  const daemon = new DaemonMetrics();
  const told = { owner: "", atMs: 0 };
  const ran = { exec_id: "exe_1", mode: "shell", end_reason: "exited", exit_code: 0 } as const;
  const output = { duration_ms: 1, stdout_bytes: 0, stderr_bytes: 0, runtime: "python" };
  daemon.lifecycle.consume([
    { ...told, type: "exec.ended", data: { ...ran, ...output } },
    { ...told, type: "session.running", data: { acquire_source: "pool", duration_ms: 1 } },
    { ...told, type: "session.ended", data: { status: "failed", error_code: "INVALID_IMAGE" } },
    { ...told, type: "session.ended", data: { status: "destroyed", lifetime_ms: 1 } },
  ]);
  daemon.requests.count({ method: "GET", route: "/", status: 200, durationMs: 1, stream: false });
  const agents = new AgentMetrics();
  agents.runEnded("succeeded", 1);
  agents.callEnded({ tool: "sandbox_run", ok: true, durationMs: 1 });
  const families = await daemon.families({
    counts: () => ({
      sessions: { running: 1 } as never,
      runningExecs: 0,
      pooled: 0,
      journal: { bytes: 0, prunedSessions: 0 },
      images: new Map([["embedded", { images: 1, bytes: 1, maxBytes: 1 }]]),
      waitingCreates: 0,
      egress: { open: 0, connections: {} as never, sentBytes: 0, receivedBytes: 0 },
    }),
    storage: () => Promise.resolve([{ kind: "sandboxes", bytes: 1, files: 1 }]),
  });
  const text = prometheusText([...families, ...agents.families()]);
  const lines = text.matchAll(/^(?<name>[a-z_]+)(?:\{(?<labels>.*)\})? [\d.]+$/gm);
  return new Map(
    [...lines].map(({ groups: { name = "", labels = "" } = {} }) => [
      name,
      new Set(Array.from(labels.matchAll(/([a-z_]+)="/g), ([, label = ""]) => label)),
    ]),
  );
}

/** Labels that a query groups or selects by. */
function labelsOf(expr: string): readonly string[] {
  const grouped = [...expr.matchAll(/\bby \(([^)]*)\)/g)].flatMap(([, names = ""]) =>
    names.split(/, */),
  );
  return [...grouped, ...Array.from(expr.matchAll(/([a-z_]+)=~?"/g), ([, label = ""]) => label)];
}

it("deploy/grafana/sandkasten.json is a dashboard whose queries use existing metrics and labels", async () => {
  const path = new URL("../../deploy/grafana/sandkasten.json", import.meta.url);
  const { panels, uid } = JSON.parse(await readFile(path, "utf8")) as {
    readonly panels: readonly Panel[];
    readonly uid: string;
  };
  expect(uid).toBe("sandkasten");
  expect(new Set(panels.map(({ id }) => id)).size).toBe(panels.length);
  const known = await knownSeries();
  const queries = panels.flatMap(({ targets }) => targets.map(({ expr }) => expr));
  expect(queries.length).toBeGreaterThan(20);
  for (const expr of queries) {
    const named = expr.match(/\b(?:station|sandkasten|process)_[a-z_]+/g) ?? [];
    expect([expr, named.length]).not.toEqual([expr, 0]);
    for (const name of named) {
      const labels = known.get(name);
      expect([expr, name, labels === undefined]).toEqual([expr, name, false]);
      expect([expr, labelsOf(expr).filter((label) => labels?.has(label) !== true)]).toEqual([
        expr,
        [],
      ]);
    }
  }
});
