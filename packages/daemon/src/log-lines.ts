/** Writes log lines to stderr in batches, since each write delays commands. */
import { pino } from "pino";
import type { DestinationStream } from "pino";

/** The longest time that a line waits for others. */
const BATCH_MS = 10;
/** Well below the size of one write, so a flush leaves nothing behind. */
const BATCH_BYTES = 8 * 1024;
/** From this level on a line is flushed at once, with those before it. */
const WARN = 40;
const STDERR = 2;

interface Levelled {
  /** Set by pino before each line. */
  lastLevel?: number;
}

export function batchedLines(fd: number = STDERR): DestinationStream {
  const sink = pino.destination({ fd, sync: true, minLength: BATCH_BYTES });
  let timer: NodeJS.Timeout | undefined;
  const flush = (): void => {
    clearTimeout(timer);
    timer = undefined;
    sink.flush();
  };
  // Also runs after an uncaught exception. A daemon that is killed loses its last batch.
  process.once("exit", flush);
  const lines: DestinationStream & Levelled = {
    write(line) {
      sink.write(line);
      if ((lines.lastLevel ?? WARN) >= WARN) flush();
      else timer ??= setTimeout(flush, BATCH_MS).unref();
    },
  };
  return Object.assign(lines, { [Symbol.for("pino.metadata")]: true });
}
