/** Shows what is being waited for, on a terminal, if a step takes longer than a moment. */
import type { Cli } from "../cli.ts";
import { plainText } from "./plain-text.ts";
import { formatDuration } from "./units.ts";

const ERASE_LINE = "\r\u001b[2K";
/** Shorter steps are not shown. */
const PATIENCE_MS = 300;

/** @param work - Gets a function that sets the text next to the label. */
export async function waiting<T>(
  cli: Cli,
  label: string,
  work: (say: (detail: string) => void) => Promise<T>,
): Promise<T> {
  const { err } = cli;
  let detail = "";
  const say = (text: string): void => {
    detail = plainText(text);
  };
  if (!err.isTerminal || cli.wantsJson()) return await work(say);
  const startedMs = performance.now();
  let drawn = false;
  const draw = (): void => {
    drawn = true;
    const took = formatDuration(performance.now() - startedMs);
    const line = Array.from(`… ${label} ${took} ${detail}`).slice(0, err.columns - 1);
    err.stream.write(ERASE_LINE + err.style.dim(line.join("").trimEnd()));
  };
  const timer = setInterval(draw, PATIENCE_MS);
  try {
    return await work(say);
  } finally {
    clearInterval(timer);
    if (drawn) err.stream.write(ERASE_LINE);
  }
}
