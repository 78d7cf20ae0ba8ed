/** Standard output or standard error: writing waits for the reader, and reports a closed pipe. */
import type { HostOutput } from "../host.ts";
import { makeStyle, type Style } from "./style.ts";

export class Sink {
  readonly stream: HostOutput;
  readonly style: Style;
  readonly isTerminal: boolean;

  /** @param onClosed - Called when the output is no longer read. */
  constructor(stream: HostOutput, colours: boolean, onClosed: () => void) {
    this.stream = stream;
    this.isTerminal = stream.isTTY === true;
    this.style = makeStyle(colours && this.isTerminal);
    stream.on("error", (error: NodeJS.ErrnoException) => {
      if (isClosedPipe(error)) onClosed();
    });
  }

  /** A terminal that was never given a size, as many that programs open, reports none. */
  get columns(): number {
    return this.stream.columns || 80;
  }

  /** Resolves when the data was written; rejects if it cannot be. */
  write(data: string | Uint8Array): Promise<void> {
    return new Promise((resolve, reject) => {
      this.stream.write(data, (error) => {
        if (error === null || error === undefined) resolve();
        else reject(error);
      });
    });
  }

  line(text = ""): Promise<void> {
    return this.write(`${text}\n`);
  }
}

function isClosedPipe(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  const code = (error as NodeJS.ErrnoException).code;
  return code === "EPIPE" || code === "ERR_STREAM_DESTROYED";
}
