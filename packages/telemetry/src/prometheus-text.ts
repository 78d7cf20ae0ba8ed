/** Metrics in the text format of Prometheus. */
import type { Label, MetricFamily, MetricSample } from "./metric-families.ts";

export function prometheusText(families: readonly MetricFamily[]): string {
  return `${families.flatMap(linesOf).join("\n")}\n`;
}

function linesOf(family: MetricFamily): string[] {
  const { name, help, type } = family;
  return [
    `# HELP ${name} ${help}`,
    `# TYPE ${name} ${type}`,
    ...family.samples.flatMap((sample) => sampleLines(family, sample)),
  ];
}

function sampleLines({ name, bounds = [] }: MetricFamily, sample: MetricSample): string[] {
  if (!("counts" in sample))
    return [`${name}${labelText(sample.labels)} ${numberText(sample.value)}`];
  const { labels, counts, sum } = sample;
  let total = 0;
  const buckets = counts.map((count, index) => {
    total += count;
    const le = index < bounds.length ? String(bounds[index]) : "+Inf";
    return `${name}_bucket${labelText({ ...labels, le })} ${total}`;
  });
  const text = labelText(labels);
  return [...buckets, `${name}_sum${text} ${numberText(sum)}`, `${name}_count${text} ${total}`];
}

function numberText(value: number): string {
  return Number.isInteger(value) ? String(value) : value.toFixed(6);
}

function labelText(labels: Label): string {
  const pairs = Object.entries(labels).map(([name, value]) => `${name}="${escaped(value)}"`);
  return pairs.length === 0 ? "" : `{${pairs.join(",")}}`;
}

function escaped(text: string): string {
  return text.replaceAll(/[\\"\n]/g, (sign) => (sign === "\n" ? String.raw`\n` : `\\${sign}`));
}
