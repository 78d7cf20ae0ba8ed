/** A line over time. */
import { useEffect, useRef } from "preact/hooks";
import type { JSX } from "preact";
import UPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { theme } from "../theme.ts";
import { bytes } from "./format.ts";

const HEIGHT = 132;
/** Points further apart than this are not joined: there were no samples in between. */
const LONGEST_GAP_SECONDS = 15;

/** The shortest time that is shown, from the first sample on. */
const SHORTEST_SECONDS = 60;
const POWERS_OF_TWO = Array.from({ length: 45 }, (_, power) => 2 ** power);
const ROUND = Array.from({ length: 12 }, (_, power) => 10 ** power).flatMap((power) => [
  power,
  2 * power,
  5 * power,
]);

/** The possible distances of grid lines, by unit. */
const STEPS = {
  bytes: POWERS_OF_TWO,
  // Counts have no fractions.
  count: ROUND,
  cores: ROUND.map((step) => step / 100),
};

const FORMATS: Readonly<Record<keyof typeof STEPS, (value: number) => string>> = {
  bytes,
  count: (value) => String(Math.round(value)),
  cores: (value) => value.toFixed(2),
};

const clock = new Intl.DateTimeFormat(undefined, { timeStyle: "medium" });

export interface Point {
  readonly atMs: number;
  readonly value: number | undefined;
}

export interface ChartProps {
  readonly title: string;
  readonly points: readonly Point[];
  readonly unit: keyof typeof STEPS;
  /** The limit of the values: the scale never exceeds it, and shows at least a tenth of it. */
  readonly most?: number | undefined;
}

export function Chart({ title, points, unit, most }: ChartProps): JSX.Element {
  const place = useRef<HTMLDivElement>(null);
  const plot = useRef<UPlot | undefined>(undefined);
  const last = points.findLast(({ value }) => value !== undefined)?.value;
  const shade = theme.value;
  useEffect(() => {
    const parent = place.current;
    if (parent === null) return undefined;
    const made = new UPlot(optionsFor(parent, unit, most), dataOf(points), parent);
    plot.current = made;
    const observer = new ResizeObserver(() =>
      made.setSize({ width: parent.clientWidth, height: HEIGHT }),
    );
    observer.observe(parent);
    return () => {
      observer.disconnect();
      made.destroy();
    };
  }, [shade, most]);
  useEffect(() => plot.current?.setData(dataOf(points)), [points]);
  const text = last === undefined ? "—" : FORMATS[unit](last);
  return (
    <figure class="chart card">
      <figcaption>
        <span class="muted">{title}</span>
        <strong>{text}</strong>
      </figcaption>
      <div ref={place} role="img" aria-label={`${title} over time, now ${text}`} />
    </figure>
  );
}

function dataOf(points: readonly Point[]): UPlot.AlignedData {
  const times: number[] = [];
  const values: (number | null)[] = [];
  const [first, last] = [points[0], points.at(-1)];
  if (first !== undefined && last !== undefined) {
    const begin = last.atMs / 1000 - SHORTEST_SECONDS;
    // With a single point, the chart could not tell which time range to show.
    if (begin < first.atMs / 1000) {
      times.push(begin);
      values.push(null);
    }
  }
  for (const { atMs, value } of points) {
    const seconds = atMs / 1000;
    const before = times.at(-1);
    if (before !== undefined && seconds - before > LONGEST_GAP_SECONDS) {
      times.push(before + 1);
      values.push(null);
    }
    times.push(seconds);
    values.push(value ?? null);
  }
  return [times, values];
}

function endOfScale(highest: number, most: number | undefined): number {
  if (most === undefined) return Math.max(1, highest * 1.15);
  return Math.min(most, Math.max(most / 10, highest * 1.3));
}

function optionsFor(
  parent: HTMLElement,
  unit: ChartProps["unit"],
  most: number | undefined,
): UPlot.Options {
  const colour = (name: string): string => getComputedStyle(parent).getPropertyValue(name).trim();
  const axis: UPlot.Axis = {
    stroke: colour("--muted"),
    font: "11px system-ui, sans-serif",
    grid: { stroke: colour("--line"), width: 1 },
    ticks: { show: false },
  };
  return {
    width: parent.clientWidth,
    height: HEIGHT,
    legend: { show: false },
    cursor: { y: false },
    padding: [8, 28, 0, 0],
    scales: {
      y: { range: (_plot, _least, highest) => [0, endOfScale(highest, most)] },
    },
    series: [
      {},
      {
        stroke: colour("--accent"),
        width: 1.75,
        fill: colour("--accent-faint"),
        points: { show: false },
      },
    ],
    axes: [
      {
        ...axis,
        grid: { show: false },
        space: 80,
        size: 26,
        values: (_plot, ticks) => ticks.map((seconds) => clock.format(seconds * 1000)),
      },
      {
        ...axis,
        size: 64,
        space: 36,
        incrs: STEPS[unit],
        values: (_plot, ticks) => ticks.map(FORMATS[unit]),
      },
    ],
  };
}
