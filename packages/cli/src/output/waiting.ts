/** Says what is being waited for: on a terminal, once a step takes longer than a moment. */
import type { Cli } from "../cli.ts";
import { formatDuration } from "./units.ts";

const ERASE_LINE = "\r\u001b[2K";
/** Steps that are done within this time need no words. */
const PATIENCE_MS = 300;

export async function waiting<T>(cli: Cli, label: string, work: () => Promise<T>): Promise<T> {
  const { err } = cli;
  if (!err.isTerminal || cli.wantsJson()) return await work();
  const startedMs = performance.now();
  let drawn = false;
  const draw = (): void => {
    drawn = true;
    const took = formatDuration(performance.now() - startedMs);
    err.stream.write(ERASE_LINE + err.style.dim(`… ${label} ${took}`));
  };
  const timer = setInterval(draw, PATIENCE_MS);
  try {
    return await work();
  } finally {
    clearInterval(timer);
    if (drawn) err.stream.write(ERASE_LINE);
  }
}
