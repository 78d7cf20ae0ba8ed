/** What processes print that a command left in the background, after its end; followed once somebody asks. */
import { SandboxError } from "@sandkasten/protocol";
import type { Channel, ExecStream } from "../ports/channel.ts";
import type { Clock } from "../ports/clock.ts";
import type { ExecJournal } from "../ports/exec-journal.ts";
import type { Log } from "../ports/log.ts";
import type { ExecRow } from "../ports/session-store.ts";
import { writeChunk } from "./recording.ts";

export interface LateOutputParts {
  readonly journal: ExecJournal;
  readonly clock: Clock;
  readonly log: Log;
}

export class LateOutput {
  #bytes = 0;
  #closed = false;
  #stream: ExecStream | undefined;
  #news = Promise.withResolvers<void>();

  constructor(channel: Channel, row: ExecRow, parts: LateOutputParts) {
    void this.#record(channel, row, parts);
  }

  /** How much came since it is followed. */
  get bytes(): number {
    return this.#bytes;
  }

  get closed(): boolean {
    return this.#closed;
  }

  /** Follows no longer; what came is kept. */
  stop(): void {
    this.#stream?.detach();
  }

  /** Resolves when more has come, or nothing will. */
  async changed(): Promise<void> {
    if (!this.#closed) await this.#news.promise;
  }

  async #record(channel: Channel, row: ExecRow, parts: LateOutputParts): Promise<void> {
    try {
      const writer = await parts.journal.write(row.sessionId, row.id);
      try {
        const stream = await channel.attach(row.id, { offset: writer.endOffset, until: "closed" });
        this.#stream = stream;
        for await (const chunk of stream) {
          await writeChunk(writer, chunk, parts.clock.nowMs());
          this.#bytes += chunk.bytes.length;
          this.#announce();
        }
      } finally {
        await writer.close();
      }
    } catch (error) {
      // The sandbox forgets commands in time; then there is nothing more to come.
      const forgotten = error instanceof SandboxError && error.code === "EXEC_NOT_FOUND";
      if (!forgotten) parts.log.warn({ err: error, exec: row.id }, "cannot follow late output");
    }
    this.#closed = true;
    this.#announce();
  }

  #announce(): void {
    const news = this.#news;
    this.#news = Promise.withResolvers();
    news.resolve();
  }
}
