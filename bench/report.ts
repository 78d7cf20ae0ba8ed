/** Renders the measurements for people, and as JSON. */
import type { Verdict } from "./budgets.ts";
import { seriesKey } from "./series.ts";
import type { Series, Unit } from "./series.ts";
import { median, percentile, ratio } from "./statistics.ts";

const MIB = 1024 * 1024;

export interface ReportOptions {
  /** Colours and bold text, for a terminal. */
  readonly styled: boolean;
}

/** The whole report as text: every scenario's series, then the budgets. */
export function renderReport(
  measured: readonly Series[],
  verdicts: readonly Verdict[],
  { styled }: ReportOptions,
): string {
  const scenarios = Map.groupBy(measured, ({ scenario }) => scenario);
  const tables = [...scenarios].map(([scenario, series]) => {
    const rows = series.filter(({ samples }) => samples.length > 0).map((one) => row(one, series));
    const head = [scenario, "p50", "p95", "least", "samples", "× first", "throughput"];
    return table([head, ...rows], styled);
  });
  return [...tables, budgetTable(verdicts, styled)].join("\n\n");
}

function row(one: Series, scenario: readonly Series[]): string[] {
  const { name, unit, samples, bytesMoved } = one;
  const first = scenario.find((other) => other.unit === unit && other.samples.length > 0) ?? one;
  const middle = median(samples);
  const base = median(first.samples);
  return [
    name,
    quantity(middle, unit),
    quantity(percentile(samples, 0.95), unit),
    quantity(Math.min(...samples), unit),
    String(samples.length),
    unit === "us" && base > 0 ? significant(ratio(middle, base)) : "",
    bytesMoved === undefined ? "" : `${Math.round(bytesMoved / MIB / (middle / 1e6))} MiB/s`,
  ];
}

function budgetTable(verdicts: readonly Verdict[], styled: boolean): string {
  const rows = verdicts.map((verdict) => {
    const { what, atMost } = verdict.budget;
    const allowed = `≤ ${significant(atMost)}`;
    if (verdict.kept === undefined) return ["–", what, "not measured", allowed, verdict.missing];
    const mark = verdict.kept ? "✓" : "✗";
    return [paint(mark, verdict.kept ? 32 : 31, styled), what, significant(verdict.ratio), allowed];
  });
  return table([["", "budget", "ratio", "allowed", "needs"], ...rows], styled);
}

/** A table with aligned columns; the first row is the head. Numbers are right-aligned. */
export function table(rows: readonly (readonly string[])[], styled: boolean): string {
  const columns = Math.max(...rows.map((cells) => cells.length));
  const used = Array.from({ length: columns }, (_, column) => column).filter((column) =>
    rows.slice(1).some((cells) => (cells[column] ?? "") !== ""),
  );
  const widths = new Map(
    used.map((column) => [column, Math.max(...rows.map((cells) => width(cells[column] ?? "")))]),
  );
  const lines = rows.map((cells, index) => {
    const line = used
      .map((column) => {
        const cell = cells[column] ?? "";
        const space = " ".repeat((widths.get(column) ?? 0) - width(cell));
        return /^(≤ )?[\d.]/u.test(rows[1]?.[column] ?? "") ? space + cell : cell + space;
      })
      .join("  ")
      .trimEnd();
    return index === 0 ? paint(line, 1, styled) : line;
  });
  return lines.join("\n");
}

/** A duration or size in the most readable unit. */
export function quantity(value: number, unit: Unit): string {
  if (unit === "bytes")
    return Math.abs(value) < MIB
      ? `${significant(value / 1024)} KiB`
      : `${significant(value / MIB)} MiB`;
  if (value < 1000) return `${significant(value)} µs`;
  return value < 1_000_000 ? `${significant(value / 1000)} ms` : `${significant(value / 1e6)} s`;
}

/** Three significant digits, without an exponent. */
export function significant(value: number): string {
  if (value === 0) return "0";
  const digits = Math.max(0, 2 - Math.floor(Math.log10(Math.abs(value))));
  return value.toFixed(Math.min(digits, 6));
}

/** The same as JSON: every sample and every verdict. */
export function jsonReport(
  facts: Readonly<Record<string, unknown>>,
  measured: readonly Series[],
  verdicts: readonly Verdict[],
): string {
  const series = measured.map((one) => ({
    key: seriesKey(one),
    ...one,
    ...(one.samples.length > 0 && {
      p50: median(one.samples),
      p95: percentile(one.samples, 0.95),
    }),
  }));
  return `${JSON.stringify({ ...facts, series, verdicts }, null, 2)}\n`;
}

function paint(text: string, code: number, styled: boolean): string {
  return styled ? `\u001B[${code}m${text}\u001B[0m` : text;
}

function width(text: string): number {
  // oxlint-disable-next-line no-control-regex -- the colours that `paint` adds have no width.
  return text.replaceAll(/\u001B\[\d+m/gu, "").length;
}
