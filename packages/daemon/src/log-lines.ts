/** Where log lines go: to stderr, several with one write, since each write costs a command its time. */
import { pino } from "pino";
import type { DestinationStream } from "pino";

/** Lines wait this long for others at most. */
const BATCH_MS = 10;
/** Well below what is written at once, so that a flush leaves nothing behind. */
const BATCH_BYTES = 8 * 1024;
/** From this level on a line is written at once, with those before it. */
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
  // Also after an exception that nothing catches. A daemon that is killed loses the last batch.
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
