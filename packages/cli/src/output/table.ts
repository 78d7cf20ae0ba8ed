/** Lists: a table on a terminal, tab-separated lines for programs. */
import { plainText } from "./plain-text.ts";
import type { Sink } from "./sink.ts";

export interface Column<T> {
  readonly head: string;
  readonly value: (row: T) => string;
  /** Only on a terminal: programs need the value, people a readable form. */
  readonly shown?: (row: T) => string;
  readonly paint?: (text: string, row: T) => string;
  /** Truncated if the terminal is too narrow. */
  readonly elastic?: boolean;
}

export async function printTable<T>(
  sink: Sink,
  columns: readonly Column<T>[],
  rows: readonly T[],
): Promise<void> {
  if (sink.isTerminal) await printForPeople(sink, columns, rows);
  else
    for (const row of rows)
      await sink.line(columns.map((column) => plainText(column.value(row))).join("\t"));
}

const GAP = 2;
const NARROWEST = 10;

async function printForPeople<T>(
  sink: Sink,
  columns: readonly Column<T>[],
  rows: readonly T[],
): Promise<void> {
  const { default: Table } = await import("cli-table3");
  const cells = rows.map((row) =>
    columns.map((column) => plainText((column.shown ?? column.value)(row))),
  );
  const widths = columns.map(
    (column, at) =>
      Math.max(column.head.length, ...cells.map((texts) => Array.from(texts[at] ?? "").length)) +
      GAP,
  );
  const spare = sink.columns - widths.reduce((sum, width) => sum + width, 0);
  const table = new Table({
    head: columns.map((column) => sink.style.bold(column.head)),
    chars: WITHOUT_LINES,
    style: { "padding-left": 0, "padding-right": GAP, head: [], border: [], compact: true },
    colWidths: widths.map((width, at) =>
      columns[at]?.elastic === true && spare < 0 ? Math.max(NARROWEST, width + spare) : width,
    ),
  });
  for (const [index, row] of rows.entries())
    table.push(
      columns.map((column, at) => {
        const text = cells[index]?.[at] ?? "";
        return column.paint === undefined ? text : column.paint(text, row);
      }),
    );
  const lines = table.toString().split("\n");
  for (const line of lines) await sink.line(line.trimEnd());
}

const WITHOUT_LINES = {
  top: "",
  "top-mid": "",
  "top-left": "",
  "top-right": "",
  bottom: "",
  "bottom-mid": "",
  "bottom-left": "",
  "bottom-right": "",
  left: "",
  "left-mid": "",
  mid: "",
  "mid-mid": "",
  right: "",
  "right-mid": "",
  middle: "",
};
