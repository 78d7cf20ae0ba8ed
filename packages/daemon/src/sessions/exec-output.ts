/** A command's output: read by cursor, followed live, or its head and tail. */
import type { OutputStream } from "@sandkasten/protocol";
import type { Clock } from "../ports/clock.ts";
import type { ExecJournal, JournalPage } from "../ports/exec-journal.ts";
import type { ExecRow } from "../ports/session-store.ts";
import { FollowerMemory } from "./follower-memory.ts";
import type { LateOutputs } from "./late-outputs.ts";
import { OutputBudget } from "./output-budget.ts";
import { Recording } from "./recording.ts";
import type {
  CollectedOutput,
  FollowOptions,
  OutputPage,
  ReadOutputOptions,
} from "./services/exec-service.ts";
import type { LiveSessions } from "./live-sessions.ts";
import { waitAtMost } from "./wait-at-most.ts";

/** Time for the sandbox to send background output that was not recorded yet. */
const CATCH_UP_MS = 50;
/** Small enough that objects created per page are soon collected. */
const FOLLOW_PAGE_BYTES = 128 * 1024;
/** How much one request scans for output of the requested stream. */
const MAX_SCANNED_BYTES = 8 * 1024 * 1024;

export interface ExecOutputParts {
  readonly journal: ExecJournal;
  readonly clock: Clock;
  readonly table: LiveSessions;
}

export class ExecOutput {
  readonly #parts: ExecOutputParts;
  readonly #late: LateOutputs;

  constructor(parts: ExecOutputParts, late: LateOutputs) {
    this.#parts = parts;
    this.#late = late;
  }

  /** Head and tail within a budget, including background output so far. */
  async collect(row: ExecRow, room: number): Promise<CollectedOutput> {
    const total = totalOf(row);
    const budget = new OutputBudget(room);
    const headEnd = Math.min(total, Math.ceil(room / 2));
    const tailStart = Math.max(headEnd, total - (room - headEnd));
    await this.#pour(row, budget, 0, headEnd);
    budget.addMissing(tailStart - headEnd);
    await this.#pour(row, budget, tailStart, total);
    return budget.collect();
  }

  /** A page from a cursor on; can wait for output. */
  async read(exec: Recording | ExecRow, options: ReadOutputOptions): Promise<OutputPage> {
    const { waitMs = 0, signal } = options;
    const deadline = this.#parts.clock.monotonicMs() + waitMs;
    let from = { offset: options.offset, skippedBytes: 0 };
    for (;;) {
      const row = this.#rowOf(exec);
      const late = row.status === "done" ? this.#late.record(row) : undefined;
      const isOver = row.status === "done" && late?.state !== "open";
      const news = late?.changed() ?? (exec instanceof Recording ? exec.changed() : undefined);
      const found = await this.#look(row, options, from);
      const { chunks, skippedBytes, nextOffset } = found.page;
      // The other stream may have more output than one request scans.
      const isFull = nextOffset - options.offset >= MAX_SCANNED_BYTES;
      if (isOver || isFull || chunks.length > 0 || skippedBytes > 0) return found;
      from = { offset: nextOffset, skippedBytes };
      if (exec instanceof Recording) exec.throwIfFailed();
      const restMs = deadline - this.#parts.clock.monotonicMs();
      const patienceMs = Math.max(restMs, late === undefined ? 0 : CATCH_UP_MS - late.ageMs);
      if (news === undefined || patienceMs <= 0) return found;
      await (late?.more(news, patienceMs, signal) ?? waitAtMost(news, patienceMs, signal));
    }
  }

  /** Yields pages until the command, or with `until: "closed"` also its background, has ended. */
  async *follow(exec: Recording | ExecRow, options: FollowOptions): AsyncIterable<JournalPage> {
    const { signal, stream } = options;
    const { sessionId } = this.#rowOf(exec);
    const recording = exec instanceof Recording ? exec : undefined;
    const isPassive = options.isPassive === true;
    const follower = isPassive ? undefined : recording?.followers.add(options.offset);
    const wasDone = this.#rowOf(exec).status === "done";
    const memory = options.reusesMemory === true ? new FollowerMemory() : undefined;
    let cursor = options.offset;
    try {
      for (;;) {
        signal?.throwIfAborted();
        const news = recording?.changed();
        const row = this.#rowOf(exec);
        const done = recording === undefined || row.status === "done";
        const page = await this.#page(row, cursor, FOLLOW_PAGE_BYTES, memory?.block);
        memory?.sawPage(page);
        if (!isEmpty(page)) {
          const shown = ofStream(page, stream);
          if (!isEmpty(shown)) yield shown;
          cursor = page.nextOffset;
          if (follower !== undefined) recording?.followers.advance(follower, cursor);
        } else if (done) break;
        // A command that was refused, or released by a stopping daemon, ends the stream with its
        // error.
        else {
          recording.throwIfFailed();
          await waitAtMost(news ?? recording.ended, undefined, signal);
        }
      }
      if (wasDone || options.until === "closed")
        yield* this.#followLate(this.#rowOf(exec), { ...options, offset: cursor });
    } finally {
      if (follower !== undefined) recording?.followers.remove(follower);
      if (!isPassive) await this.#wasUsed(sessionId);
    }
  }

  /** Output of a command's background; without `until: "closed"` only what already exists. */
  async *#followLate(row: ExecRow, options: FollowOptions): AsyncIterable<JournalPage> {
    const { signal, stream, until } = options;
    const { sessionId, id } = row;
    const late = this.#late.record(row);
    if (late === undefined) return;
    const session = options.isPassive === true ? undefined : this.#parts.table.get(sessionId);
    // Reading a service's log counts as using the session.
    await session?.enter();
    try {
      let cursor = options.offset;
      for (;;) {
        signal?.throwIfAborted();
        const news = late.changed();
        const isOpen = late.state === "open";
        const page = await this.#parts.journal.read(sessionId, id, cursor, FOLLOW_PAGE_BYTES);
        const patienceMs = until === "closed" ? undefined : CATCH_UP_MS - late.ageMs;
        if (!isEmpty(page)) {
          const shown = ofStream(page, stream);
          if (!isEmpty(shown)) yield shown;
          cursor = page.nextOffset;
        } else if (!isOpen || (patienceMs !== undefined && patienceMs <= 0)) return;
        else await late.more(news, patienceMs, signal);
      }
    } finally {
      await session?.leave();
    }
  }

  /** The next page with output of the requested stream. */
  async #look(
    row: ExecRow,
    { offset: start, maxBytes, stream }: ReadOutputOptions,
    from: { readonly offset: number; readonly skippedBytes: number },
  ): Promise<OutputPage> {
    let { offset, skippedBytes } = from;
    for (;;) {
      const page = await this.#page(row, offset, maxBytes);
      const { chunks } = ofStream(page, stream);
      skippedBytes += page.skippedBytes;
      offset = page.nextOffset;
      const isLast = isEmpty(page) || offset - start >= MAX_SCANNED_BYTES;
      if (chunks.length === 0 && !isLast) continue;
      const done = row.status === "done" && offset >= ownBytesOf(row);
      const closed = done && !row.background && (offset >= totalOf(row) || isEmpty(page));
      return { page: { chunks, skippedBytes, nextOffset: offset }, exec: row, done, closed };
    }
  }

  /** If the journal lacks output of an ended command, report a gap, never silence. */
  async #page(
    row: ExecRow,
    offset: number,
    maxBytes: number,
    memory?: Buffer,
  ): Promise<JournalPage> {
    const page = await this.#parts.journal.read(row.sessionId, row.id, offset, maxBytes, memory);
    const missing = ownBytesOf(row) - offset;
    if (row.status !== "done" || !isEmpty(page) || missing <= 0) return page;
    return { chunks: [], nextOffset: offset + missing, skippedBytes: missing };
  }

  /** Reading along counts as use, up to now. */
  async #wasUsed(sessionId: string): Promise<void> {
    const session = this.#parts.table.get(sessionId);
    if (session?.row.status === "running" && session.ending === undefined) await session.renew();
  }

  /** Adds the output between two offsets, as far as it is kept. */
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

  /** The current row. */
  #rowOf(exec: Recording | ExecRow): ExecRow {
    return this.#late.shown(exec instanceof Recording ? exec.row : exec);
  }
}

function isEmpty(page: JournalPage): boolean {
  return page.chunks.length === 0 && page.skippedBytes === 0;
}

function ofStream(page: JournalPage, stream: OutputStream | undefined): JournalPage {
  if (stream === undefined) return page;
  return { ...page, chunks: page.chunks.filter((chunk) => chunk.stream === stream) };
}

function ownBytesOf(row: ExecRow): number {
  return row.stdoutBytes + row.stderrBytes;
}

function totalOf(row: ExecRow): number {
  return ownBytesOf(row) + row.backgroundBytes;
}
