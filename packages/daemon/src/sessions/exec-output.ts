/** What a command has printed: read by cursor, followed as it comes, or head and tail of it. */
import type { Clock } from "../ports/clock.ts";
import type { JournalPage } from "../ports/exec-journal.ts";
import type { ExecRow } from "../ports/session-store.ts";
import { LateOutput } from "./late-output.ts";
import type { LateOutputParts } from "./late-output.ts";
import type { LiveSession } from "./live-session.ts";
import { OutputBudget } from "./output-budget.ts";
import { Recording } from "./recording.ts";
import type { CollectedOutput, OutputPage, ReadOutputOptions } from "./services.ts";
import type { SessionTable } from "./session-table.ts";
import { within } from "./within.ts";

/** Time for the sandbox to say whether a command that has ended has printed more since. */
const LATE_OUTPUT_WAIT_MS = 50;
/** Ended commands of one session whose background is followed; each holds a file open. */
const MAX_LATE_OUTPUTS = 16;
/** Small enough that what is made of a page is soon collected. */
const FOLLOW_PAGE_BYTES = 128 * 1024;

export interface ExecOutputParts extends LateOutputParts {
  readonly clock: Clock;
  readonly table: SessionTable;
}

export class ExecOutput {
  readonly #parts: ExecOutputParts;

  constructor(parts: ExecOutputParts) {
    this.#parts = parts;
  }

  /** Head and tail within a budget. */
  async collect(row: ExecRow, room: number): Promise<CollectedOutput> {
    const total = row.stdoutBytes + row.stderrBytes;
    const budget = new OutputBudget(room);
    const headEnd = Math.min(total, Math.ceil(room / 2));
    const tailStart = Math.max(headEnd, total - (room - headEnd));
    await this.#pour(row, budget, 0, headEnd);
    budget.addMissing(tailStart - headEnd);
    await this.#pour(row, budget, tailStart, total);
    return budget.collect();
  }

  /** A page from a cursor on, which may be waited for. */
  async read(exec: Recording | ExecRow, options: ReadOutputOptions): Promise<OutputPage> {
    const { offset, maxBytes, waitMs = 0, signal } = options;
    const look = async (): Promise<OutputPage> => {
      const row = rowOf(exec);
      const page = await this.#parts.journal.read(row.sessionId, row.id, offset, maxBytes);
      const hasAll = page.nextOffset >= row.stdoutBytes + row.stderrBytes || isEmpty(page);
      return { page, exec: row, done: row.status === "done" && hasAll };
    };
    const deadline = this.#parts.clock.monotonicMs() + waitMs;
    for (;;) {
      const news = exec instanceof Recording ? exec.changed() : undefined;
      const found = await look();
      const restMs = deadline - this.#parts.clock.monotonicMs();
      if (!isEmpty(found.page)) return found;
      if (found.exec.status === "done") {
        const late = await this.#lateOutput(found.exec, restMs, signal);
        return late ? await look() : found;
      }
      if (exec instanceof Recording) exec.throwIfFailed();
      if (news === undefined || restMs <= 0) return found;
      await within(news, restMs, signal);
    }
  }

  /** Page after page until the command has ended and all was delivered. */
  async *follow(
    exec: Recording | ExecRow,
    offset: number,
    signal?: AbortSignal,
  ): AsyncIterable<JournalPage> {
    const { sessionId, id } = rowOf(exec);
    const recording = exec instanceof Recording ? exec : undefined;
    const follower = recording?.follow(offset);
    let cursor = offset;
    try {
      for (;;) {
        signal?.throwIfAborted();
        const news = recording?.changed();
        const done = recording === undefined || recording.row.status === "done";
        const page = await this.#parts.journal.read(sessionId, id, cursor, FOLLOW_PAGE_BYTES);
        if (!isEmpty(page)) {
          yield page;
          cursor = page.nextOffset;
          if (follower !== undefined) recording?.advance(follower, cursor);
        } else if (done) return;
        // A command that was refused, or that a stopping daemon lets go of, ends the stream with its error.
        else {
          recording.throwIfFailed();
          await within(news ?? recording.ended, undefined, signal);
        }
      }
    } finally {
      if (follower !== undefined) recording?.unfollow(follower);
      await this.#wasUsed(sessionId);
    }
  }

  /** Somebody has read along, which is use, until now. */
  async #wasUsed(sessionId: string): Promise<void> {
    const session = this.#parts.table.get(sessionId);
    if (session?.row.status === "running" && session.ending === undefined) await session.renew();
  }

  /** Output between two offsets, as far as it is kept. */
  async #pour(row: ExecRow, budget: OutputBudget, from: number, to: number): Promise<void> {
    let cursor = from;
    while (cursor < to) {
      const maxBytes = Math.min(to - cursor, FOLLOW_PAGE_BYTES);
      const page = await this.#parts.journal.read(row.sessionId, row.id, cursor, maxBytes);
      if (isEmpty(page)) break;
      budget.addMissing(Math.min(page.skippedBytes, to - cursor));
      if (page.skippedBytes > 0 && cursor + page.skippedBytes >= to) return;
      for (const { stream, bytes } of page.chunks) budget.add(stream, bytes);
      cursor = page.nextOffset;
    }
    budget.addMissing(Math.max(0, to - cursor));
  }

  /** Looks whether what a command left in the background has printed more; true when there is some. */
  async #lateOutput(row: ExecRow, waitMs: number, signal?: AbortSignal): Promise<boolean> {
    const session = this.#parts.table.get(row.sessionId);
    if (session?.row.status !== "running" || session.ending !== undefined) return false;
    const late = session.lateOutputs.get(row.id) ?? (await this.#followLate(session, row));
    if (late === undefined) return false;
    const before = late.bytes;
    await within(late.changed(), Math.max(waitMs, LATE_OUTPUT_WAIT_MS), signal);
    return late.bytes > before;
  }

  async #followLate(session: LiveSession, row: ExecRow): Promise<LateOutput | undefined> {
    try {
      const late = new LateOutput(await session.channel(), row, this.#parts);
      session.lateOutputs.set(row.id, late);
      const open = [...session.lateOutputs.values()].filter((other) => !other.closed);
      for (const oldest of open.slice(0, -MAX_LATE_OUTPUTS)) oldest.stop();
      return late;
    } catch (error) {
      // What is kept can be read all the same.
      this.#parts.log.warn({ err: error, exec: row.id }, "cannot ask for late output");
      return undefined;
    }
  }
}

/** As it is now. */
function rowOf(exec: Recording | ExecRow): ExecRow {
  return exec instanceof Recording ? exec.row : exec;
}

function isEmpty(page: JournalPage): boolean {
  return page.chunks.length === 0 && page.skippedBytes === 0;
}
