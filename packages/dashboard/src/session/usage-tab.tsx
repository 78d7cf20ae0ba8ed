/** A session's resource usage while the tab is open. */
import type { JSX } from "preact";
import { useEffect } from "preact/hooks";
import { Chart } from "../parts/chart.tsx";
import { bytes } from "../parts/format.ts";
import { usage, type Sample, watchUsage } from "../state/usage.ts";
import type { TabProps } from "./tab-props.ts";

const NO_SAMPLES: readonly Sample[] = [];

export function UsageTab({ session, info }: TabProps): JSX.Element {
  useEffect(() => watchUsage(session.id), [session]);
  const samples = usage.value.get(session.id) ?? NO_SAMPLES;
  const last = samples.at(-1)?.stats;
  const points = (of: (sample: Sample) => number | undefined) =>
    samples.map((sample) => ({ atMs: sample.atMs, value: of(sample) }));
  const cores = info.limits.cpuMillicores / 1000;
  return (
    <div class="scroll charts" tabIndex={0}>
      <Chart
        title={`CPU of ${cores} ${cores === 1 ? "core" : "cores"}`}
        points={points((sample) => sample.cores)}
        unit="cores"
        most={cores}
      />
      <Chart
        title={last === undefined ? "Memory" : `Memory of ${bytes(last.memoryLimit)}`}
        points={points(({ stats }) => stats.memoryBytes)}
        unit="bytes"
        most={last?.memoryLimit}
      />
      <Chart
        title={last === undefined ? "Disk" : `Disk of ${bytes(last.diskLimit)}`}
        points={points(({ stats }) => stats.diskBytes)}
        unit="bytes"
        most={last?.diskLimit}
      />
      <Chart
        title={last === undefined ? "Processes" : `Processes of ${last.pidsLimit}`}
        points={points(({ stats }) => stats.pids)}
        unit="count"
      />
    </div>
  );
}
