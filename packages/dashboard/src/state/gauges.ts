/** The daemon's own metrics, sampled while they are visible. */
import { signal } from "@preact/signals";
import { connection } from "./connection.ts";

const SAMPLE_MS = 3000;
const KEPT_SAMPLES = 400;

export interface GaugeSample {
  readonly atMs: number;
  readonly values: ReadonlyMap<string, number>;
}

/** Oldest first; undefined if the key may not read the daemon's metrics. */
export const gauges = signal<readonly GaugeSample[] | undefined>([]);

/** Samples until the signal fires. */
export async function sampleGauges(stopped: AbortSignal): Promise<void> {
  while (!stopped.aborted) {
    try {
      const text = await connection.peek()?.text("/v1/metrics", stopped);
      if (text === undefined) return;
      const sample = { atMs: Date.now(), values: valuesIn(text) };
      gauges.value = [...(gauges.peek() ?? []), sample].slice(-KEPT_SAMPLES);
    } catch {
      if (!stopped.aborted) gauges.value = undefined;
      return;
    }
    await new Promise((resolve) => setTimeout(resolve, SAMPLE_MS));
  }
}

/** The values of Prometheus' text format, by name and labels. */
function valuesIn(text: string): ReadonlyMap<string, number> {
  const values = new Map<string, number>();
  for (const line of text.split("\n")) {
    const [, name, value] = /^([a-z_]+(?:\{[^}]*\})?) (\S+)$/.exec(line) ?? [];
    if (name !== undefined) values.set(name, Number(value));
  }
  return values;
}
