/** Transfer progress: one overwritten line on a terminal, nothing elsewhere. */
import { plainText } from "./plain-text.ts";
import type { Sink } from "./sink.ts";
import { formatBytes } from "./units.ts";

export interface Progress extends AsyncDisposable {
  /** @param total - Absent if unknown. */
  show(label: string, done: number, total?: number): Promise<void>;
}

const BAR_WIDTH = 24;
const REDRAW_MS = 80;
const ERASE_LINE = "\r\u001b[2K";

/** @param wanted - false if the output is for programs. */
export function makeProgress(sink: Sink, wanted: boolean): Progress {
  if (!wanted || !sink.isTerminal)
    return {
      show: () => Promise.resolve(),
      [Symbol.asyncDispose]: () => Promise.resolve(),
    };
  let drawnAtMs = -Infinity;
  let drawn = false;
  return {
    async show(label, done, total) {
      const nowMs = performance.now();
      const complete = total !== undefined && done >= total;
      if (!complete && nowMs - drawnAtMs < REDRAW_MS) return;
      drawnAtMs = nowMs;
      drawn = true;
      await sink.write(ERASE_LINE + renderProgress(sink, plainText(label), done, total));
    },
    async [Symbol.asyncDispose]() {
      if (drawn) await sink.write(ERASE_LINE);
    },
  };
}

function renderProgress(sink: Sink, label: string, done: number, total?: number): string {
  const { style } = sink;
  const room = Math.max(8, sink.columns - BAR_WIDTH - 36);
  const characters = Array.from(label);
  const name = characters.length > room ? `…${characters.slice(1 - room).join("")}` : label;
  if (total === undefined || total === 0) return `${name} ${formatBytes(done)}`;
  const share = Math.min(1, done / total);
  const filled = Math.round(share * BAR_WIDTH);
  const bar = style.cyan("█".repeat(filled)) + style.dim("░".repeat(BAR_WIDTH - filled));
  const percent = `${Math.floor(share * 100)}`.padStart(3);
  return `${name} ${bar} ${percent} % ${formatBytes(done)} of ${formatBytes(total)}`;
}
