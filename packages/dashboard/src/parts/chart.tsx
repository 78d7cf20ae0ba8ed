/** A line over time. */
import { useEffect, useRef } from "preact/hooks";
import type { JSX } from "preact";
import UPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { theme } from "../theme.ts";

const HEIGHT = 150;
/** Points further apart than this are not joined: nobody looked in between. */
const LONGEST_GAP_SECONDS = 15;

/** Of the time that is shown, from the first sample on. */
const SHORTEST_SECONDS = 60;
/** What is counted has no halves. */
const WHOLE_STEPS = [1, 10, 100, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10].flatMap((step) => [
  step,
  2 * step,
  5 * step,
]);

export interface Point {
  readonly atMs: number;
  readonly value: number | undefined;
}

export interface ChartProps {
  readonly title: string;
  readonly points: readonly Point[];
  readonly format: (value: number) => string;
  /** The end of the scale; what the values need when absent. */
  readonly most?: number | undefined;
}

export function Chart({ title, points, format, most }: ChartProps): JSX.Element {
  const place = useRef<HTMLDivElement>(null);
  const plot = useRef<UPlot | undefined>(undefined);
  const last = points.findLast(({ value }) => value !== undefined)?.value;
  const shade = theme.value;
  useEffect(() => {
    const parent = place.current;
    if (parent === null) return undefined;
    const made = new UPlot(optionsFor(parent, format, most), dataOf(points), parent);
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
  const text = last === undefined ? "—" : format(last);
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
    // Of one point alone the chart would not know which time to show.
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

function optionsFor(
  parent: HTMLElement,
  format: (value: number) => string,
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
    padding: [8, 4, 0, 0],
    scales: {
      y: { range: (_plot, _least, highest) => [0, most ?? Math.max(1, highest * 1.15)] },
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
      { ...axis, grid: { show: false }, space: 70 },
      {
        ...axis,
        size: 64,
        space: 36,
        ...(most === undefined && { incrs: WHOLE_STEPS }),
        values: (_plot, ticks) => ticks.map(format),
      },
    ],
  };
}
