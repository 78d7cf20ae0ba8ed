/**
 * Draws the README's chart from the table in `docs/benchmarks.md`:
 *
 *     node bench/generate-speed-chart.ts
 *
 * A test fails if the chart is out of date.
 */
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";

export const BENCHMARKS = join(import.meta.dirname, "../docs/benchmarks.md");
export const CHART = join(import.meta.dirname, "../docs/images/speed.svg");

interface Bar {
  readonly label: string;
  /** The report's table, and the row in it. */
  readonly table: string;
  readonly row: string;
}

const GROUPS: readonly { readonly title: string; readonly bars: readonly Bar[] }[] = [
  {
    title: "Create a sandbox and run its first command",
    bars: [
      { label: "docker run", table: "warm create", row: "docker run" },
      { label: "Sandkasten, cold", table: "warm create", row: "HTTP, cold, first true" },
      { label: "Sandkasten, warm", table: "warm create", row: "HTTP, warm, first true" },
    ],
  },
  {
    title: "Run a command in a sandbox that is there",
    bars: [
      { label: "docker exec", table: "exec true", row: "docker exec" },
      { label: "Sandkasten", table: "exec true", row: "HTTP, shell, true" },
    ],
  },
  {
    title: "Write a file of 1 KB",
    bars: [
      { label: "docker cp", table: "docker files", row: "docker cp, in" },
      { label: "Sandkasten", table: "1 KB file", row: "HTTP, write" },
    ],
  },
];

const UNITS: Readonly<Record<string, number>> = { µs: 0.001, ms: 1, s: 1000 };
const WIDTH = 760;
const LABEL_WIDTH = 150;
const BAR_WIDTH = 430;
const ROW_HEIGHT = 26;
const TITLE_HEIGHT = 34;
/** Legible on light and dark pages. */
const TEXT = "#7a828c";
const DOCKER = "#9aa4af";
const OWN = "#d08a1d";

/** The median of a row, in milliseconds. */
export function medianOf(report: string, table: string, row: string): number {
  const lines = report.split("\n");
  const start = lines.findIndex((line) => line.startsWith(`${table} `) && line.includes("p50"));
  const found = lines
    .slice(start)
    .slice(0, lines.slice(start).indexOf(""))
    .find((line) => new RegExp(`^${row}  +`).test(line));
  const [, value, unit = ""] = /^.*?  +([\d.]+) (µs|ms|s)\b/.exec(found ?? "") ?? [];
  const factor = UNITS[unit];
  if (start === -1 || value === undefined || factor === undefined)
    throw new Error(`docs/benchmarks.md has no row "${row}" in a table "${table}"`);
  return Number(value) * factor;
}

export function speedChart(report: string): string {
  let y = 0;
  const parts: string[] = [];
  for (const { title, bars } of GROUPS) {
    y += TITLE_HEIGHT;
    parts.push(text(0, y - 10, title, 'font-weight="600"'));
    const times = bars.map(({ table, row }) => medianOf(report, table, row));
    const longest = Math.max(...times);
    for (const [index, { label }] of bars.entries()) {
      const time = times[index] ?? 0;
      const width = Math.max(1, (BAR_WIDTH * time) / longest);
      const isFirst = index === 0;
      const times_ = isFirst ? "" : ` (${ratio(longest / time)} × faster)`;
      parts.push(
        text(LABEL_WIDTH - 8, y + 15, label, 'text-anchor="end"'),
        `<rect x="${LABEL_WIDTH}" y="${y + 3}" width="${width.toFixed(1)}" height="16" rx="2" fill="${isFirst ? DOCKER : OWN}"/>`,
        text(LABEL_WIDTH + width + 8, y + 15, `${Number(time.toPrecision(3))} ms${times_}`),
      );
      y += ROW_HEIGHT;
    }
  }
  const summary = "Median times of Sandkasten beside docker";
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${y + 6}" width="${WIDTH}" height="${y + 6}" role="img" aria-label="${summary}" font-family="system-ui, sans-serif" font-size="13" fill="${TEXT}">`,
    `<title>${summary}</title>`,
    ...parts,
    "</svg>",
    "",
  ].join("\n");
}

function ratio(value: number): string {
  return value < 10 ? value.toFixed(1) : String(Math.round(value));
}

function text(x: number, y: number, content: string, attributes = ""): string {
  return `<text x="${Number(x.toFixed(1))}" y="${y}"${attributes === "" ? "" : ` ${attributes}`}>${content}</text>`;
}

if (import.meta.main) await writeFile(CHART, speedChart(await readFile(BENCHMARKS, "utf8")));
