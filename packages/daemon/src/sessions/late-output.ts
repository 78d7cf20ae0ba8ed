/** Records what a command's background processes print after the command's end. */
import { setTimeout as sleep } from "node:timers/promises";
import { SandboxError } from "@sandkasten/protocol";
import type { Channel, ExecStream } from "../ports/channel.ts";
import type { Clock } from "../ports/clock.ts";
import type { ExecJournal } from "../ports/exec-journal.ts";
import type { Log } from "../ports/log.ts";
import type { ExecRow } from "../ports/session-store.ts";
import { OutputWriter } from "./output-writer.ts";
import { waitAtMost } from "./wait-at-most.ts";

/**
 * A burst of one second is recorded at once; during a lasting flood the sandbox keeps only the
 * newest output.
 */
const MAX_BYTES_PER_SECOND = 1_048_576;

export interface LateOutputParts {
  readonly journal: ExecJournal;
  readonly clock: Clock;
  readonly log: Log;
}

export class LateOutput {
  /** Settles when the recording has ended. */
  readonly finished: Promise<void>;
  readonly #row: ExecRow;
  readonly #parts: LateOutputParts;
  readonly #output: OutputWriter;
  readonly #stopped = new AbortController();
  readonly #startedMs = performance.now();
  #state: "open" | "over" | "stopped" = "open";
  #bytes: number;
  #readers = 0;
  #stream: ExecStream | undefined;
  #news = Promise.withResolvers<void>();

  constructor(channel: Promise<Channel>, row: ExecRow, fence: number, parts: LateOutputParts) {
    this.#row = row;
    this.#parts = parts;
    this.#bytes = row.backgroundBytes;
    this.#output = new OutputWriter(
      row.id,
      () => parts.journal.write(row.sessionId, row.id, undefined, fence),
      parts,
    );
    this.finished = this.#run(channel);
  }

  /** How long it has been recorded. */
  get ageMs(): number {
    return performance.now() - this.#startedMs;
  }

  /** Bytes since the command's end, including dropped ones. */
  get bytes(): number {
    return this.#bytes;
  }

  /** `over` when no process holds the output, `stopped` when it is no longer recorded. */
  get state(): "open" | "over" | "stopped" {
    return this.#state;
  }

  /** Stops recording; the processes continue. */
  stop(): void {
    this.#stopped.abort();
    this.#output.stop();
    this.#stream?.detach();
  }

  /** Whether a reader is waiting for more. */
  get isAttended(): boolean {
    return this.#readers > 0;
  }

  /** Resolves when there is more output, no more can come, or the timeout expires. */
  async more(news: Promise<void>, timeoutMs?: number, signal?: AbortSignal): Promise<void> {
    this.#readers += 1;
    try {
      await waitAtMost(news, timeoutMs, signal);
    } finally {
      this.#readers -= 1;
    }
  }

  /** Resolves when there is more output, or no more can come. */
  async changed(): Promise<void> {
    if (this.#state === "open") await this.#news.promise;
  }

  async #run(channel: Promise<Channel>): Promise<void> {
    try {
      this.#state = (await this.#record(await channel)) ? "over" : "stopped";
    } catch (error) {
      // The sandbox eventually forgets commands; then no more output can come.
      const forgotten = error instanceof SandboxError && error.code === "EXEC_NOT_FOUND";
      this.#state = forgotten ? "over" : "stopped";
      if (!forgotten)
        this.#parts.log.warn({ err: error, exec: this.#row.id }, "cannot record late output");
    }
    this.#announce();
  }

  /** True if the last process that held the output is gone. */
  async #record(channel: Channel): Promise<boolean> {
    const { id, stdoutBytes, stderrBytes } = this.#row;
    const writer = await this.#output.open();
    try {
      const stream = await channel.attach(id, { offset: writer.endOffset, until: "closed" });
      this.#stream = stream;
      if (this.#stopped.signal.aborted) stream.detach();
      const pace = new Pace(this.#stopped.signal);
      for await (const chunk of stream) {
        await this.#output.write(chunk);
        this.#bytes = Math.max(0, writer.endOffset - stdoutBytes - stderrBytes);
        this.#announce();
        await pace.keep(chunk.bytes.length);
      }
      const { reason } = await stream.ended;
      // A released stream may know its end without having delivered everything.
      return !this.#stopped.signal.aborted && reason !== "unknown" && reason !== "sandbox_gone";
    } finally {
      // Output that a stopped recording did not take is still in the sandbox for the next one.
      await (this.#stopped.signal.aborted ? this.#output.release() : this.#output.close());
    }
  }

  #announce(): void {
    const news = this.#news;
    this.#news = Promise.withResolvers();
    news.resolve();
  }
}

/**
 * SECURITY: background processes do not count against command quotas, so their output must not keep
 * the daemon or its disk busy (threat: floods of output). Guarded by "a flood" in
 * late-outputs.test.ts.
 */
class Pace {
  readonly #stopped: AbortSignal;
  #startedMs = performance.now();
  #bytes = 0;

  constructor(stopped: AbortSignal) {
    this.#stopped = stopped;
  }

  async keep(bytes: number): Promise<void> {
    const elapsedMs = performance.now() - this.#startedMs;
    if (elapsedMs > 1000) {
      this.#startedMs += elapsedMs;
      this.#bytes = 0;
    }
    this.#bytes += bytes;
    if (this.#bytes < MAX_BYTES_PER_SECOND || this.#stopped.aborted) return;
    const restMs = Math.max(1, 1000 - elapsedMs);
    await sleep(restMs, undefined, { signal: this.#stopped, ref: false }).catch(() => undefined);
  }
}
