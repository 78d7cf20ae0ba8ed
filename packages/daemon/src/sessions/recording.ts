/** One command while it runs: its output goes into the journal, its end into the store, and whoever waits is told. */
import { setImmediate, setTimeout as sleep } from "node:timers/promises";
import { SandboxError } from "@sandkasten/protocol";
import type { Channel, ExecCommand, ExecEnd, ExecOptions, ExecStream } from "../ports/channel.ts";
import { ObservedDeadline } from "../observed-deadline.ts";
import type { Events } from "../events/recorder.ts";
import type { Clock } from "../ports/clock.ts";
import type { ExecJournal } from "../ports/exec-journal.ts";
import type { Log } from "../ports/log.ts";
import type { ExecPatch, ExecRow, SessionStore } from "../ports/session-store.ts";
import { ExecDeadline } from "./exec-deadline.ts";
import type { DeadlineTimes } from "./exec-deadline.ts";
import type { OutputBudget } from "./output-budget.ts";
import { OutputWriter } from "./output-writer.ts";
import { execEnded } from "./session-events.ts";

/** How long a silent sandbox is waited for, unless the command's own time is over before. */
const FROZEN_MS = 600_000;
const END_GRACE_MS = 10_000;
const ATTACH_PAUSE_MS = 250;

export interface RecordingParts {
  readonly store: SessionStore;
  readonly journal: ExecJournal;
  readonly clock: Clock;
  readonly log: Log;
  readonly events: Events;
}

export interface RecordingOptions {
  /** Absent when the beginning of the output was not seen. */
  readonly budget?: OutputBudget;
  readonly isTerminal: boolean;
  /** What interprets it, where the command does not show it. */
  readonly runtime?: string | undefined;
  /** The token with which its session is served. */
  readonly fence: number;
  /** An earlier daemon may have handed it to the sandbox. */
  readonly mayHaveRun?: boolean;
  /** Whether the sandbox is frozen on purpose. */
  readonly isFrozen?: () => boolean;
  readonly deadlineTimes?: DeadlineTimes | undefined;
}

/** How a command ends that the sandbox said nothing about. */
type SilentEnd = "sandbox_gone" | "not_started" | "unknown" | "killed" | "cancelled";

/** Somebody who reads along; nothing behind `offset` may be dropped. */
export interface Follower {
  offset: number;
}

export class Recording {
  /** Head and tail of the output; absent when the beginning was not seen. */
  readonly budget: OutputBudget | undefined;
  /** Gives up a command that still waits for its turn. */
  readonly queue = new AbortController();
  /** Resolves when all that its end brings about has been done. */
  settled: Promise<void> = Promise.resolve();
  readonly #parts: RecordingParts;
  readonly #isTerminal: boolean;
  readonly #followers = new Set<Follower>();
  readonly #ended = Promise.withResolvers<ExecRow>();
  readonly #begun = Promise.withResolvers<ExecStream>();
  #row: ExecRow;
  /** The sandbox may know of it. */
  #mayHaveRun: boolean;
  #stream: ExecStream | undefined;
  #failure: Error | undefined;
  readonly #output: OutputWriter;
  /** Settles when the end is in the store. */
  #written: Promise<void> = Promise.resolve();
  #news = Promise.withResolvers<void>();
  #progress = Promise.withResolvers<void>();
  #gone = false;
  #released = false;
  readonly #options: RecordingOptions;
  /** Rejects when the sandbox owes the beginning or the end for too long. */
  readonly #overdue = Promise.withResolvers<never>();
  #isOverdue = false;
  #isKeeping = false;

  constructor(row: ExecRow, options: RecordingOptions, parts: RecordingParts) {
    this.#row = row;
    this.#options = options;
    this.#mayHaveRun = options.mayHaveRun ?? false;
    this.budget = options.budget;
    this.#isTerminal = options.isTerminal;
    this.#parts = parts;
    this.#output = new OutputWriter(
      row.id,
      () =>
        parts.journal.write(row.sessionId, row.id, (offset) => this.#readBy(offset), options.fence),
      parts,
    );
    this.#ended.promise.catch(() => undefined);
    this.#begun.promise.catch(() => undefined);
    this.#overdue.promise.catch(() => undefined);
  }

  /** As it is now; of a running command with what it has printed so far. */
  get row(): ExecRow {
    return this.#row.status === "running" ? { ...this.#row, ...this.#output.counts } : this.#row;
  }

  /** Settles with the row when the command has ended. Rejects when the sandbox refused to run it, or the daemon stops. */
  get ended(): Promise<ExecRow> {
    return this.#ended.promise;
  }

  /** A terminal that nobody sits at is no use of its session, however long it stays open. */
  get isUnattended(): boolean {
    return this.#isTerminal && this.#followers.size === 0;
  }

  /** Resolves when its end, if it has ended, is in the store. */
  get written(): Promise<void> {
    return this.#written;
  }

  /** Resolves when the sandbox has begun to run it. */
  get begun(): Promise<ExecStream> {
    return this.#begun.promise;
  }

  /** For readers, whom the end of the output alone does not tell that something is wrong. */
  throwIfFailed(): void {
    if (this.#failure !== undefined) throw this.#failure;
  }

  /** Runs a new command to its end. */
  async run(channel: Channel, command: ExecCommand, options: ExecOptions): Promise<void> {
    await this.#record(async () => {
      if (this.#row.status === "queued") await this.#save({ status: "running" });
      this.queue.signal.throwIfAborted();
      this.#mayHaveRun = true;
      try {
        return await channel.exec(command, options);
      } catch (error) {
        // The channel rejects only for a command that the sandbox did not take.
        this.#mayHaveRun = false;
        throw error;
      }
    });
  }

  /** Goes on with a command that an earlier daemon began. False when the sandbox does not know it. */
  async resume(channel: Channel): Promise<boolean> {
    const { endOffset: offset } = await this.#output.open();
    const attach = (stdin: boolean): Promise<ExecStream> =>
      channel.attach(this.#row.id, { offset, ...(stdin && { stdin: true }) });
    let isKnown = true;
    await this.#record(async () => {
      try {
        return await this.#whileFrozen(() => attach(true));
      } catch (error) {
        isKnown = !isNotFound(error);
        // It was started without an input to write to.
        return isKnown ? await attach(false) : undefined;
      }
    });
    return isKnown;
  }

  /** Tries again while the sandbox is there but silent: a frozen one may thaw, and its command goes on. */
  async #whileFrozen(attach: () => Promise<ExecStream>): Promise<ExecStream> {
    const { timeoutMs = FROZEN_MS } = this.#row;
    let isOver = false;
    const deadline = new ObservedDeadline(
      Math.min(FROZEN_MS, timeoutMs + END_GRACE_MS),
      () => (isOver = true),
    );
    try {
      for (;;) {
        try {
          return await attach();
        } catch (error) {
          if (!isSilence(error) || isOver || this.#gone || this.#released) throw error;
        }
        await sleep(ATTACH_PAUSE_MS);
      }
    } finally {
      deadline.stop();
    }
  }

  /** Ends it without the sandbox's word, because there is no sandbox any more, or it never ran. */
  async abandon(reason: SilentEnd): Promise<void> {
    // The sandbox, which alone knows of the end until it is written down, goes now.
    if (this.#row.status === "done") return await this.#written;
    this.#gone = true;
    this.#output.stop();
    this.#progressed();
    this.#stream?.detach();
    if (this.#stream !== undefined) {
      // The pump sees the end of the stream and writes it down.
      await this.#ended.promise.catch(() => undefined);
      await this.#written;
      return;
    }
    this.queue.abort(new SandboxError("CANCELLED", "the command was given up before it began"));
    this.#begun.reject(new SandboxError("CONFLICT", `the command ${this.#row.id} was given up`));
    const never = reason === "sandbox_gone" && !this.#mayHaveRun;
    await this.#finish(endWithoutWord(this.#row.id, never ? "not_started" : reason));
  }

  /** It could not even be begun. */
  async fail(error: unknown): Promise<void> {
    if (this.#row.status !== "done") await this.#refused(error);
  }

  /** The daemon stops: the command goes on, and the next daemon goes on with the recording. */
  release(): void {
    this.#released = true;
    this.#output.stop();
    this.#reject(
      new SandboxError(
        "SANDBOX_UNREACHABLE",
        `the daemon is stopping; the command ${this.#row.id} goes on, ask for it again in a moment`,
      ),
    );
    this.queue.abort(new SandboxError("CANCELLED", "the daemon is stopping"));
    this.#stream?.detach();
    this.#progressed();
    this.#announce();
  }

  /** Resolves at the next output, or when it ends. */
  async changed(): Promise<void> {
    await this.#news.promise;
  }

  follow(offset: number): Follower {
    const follower = { offset };
    this.#followers.add(follower);
    return follower;
  }

  advance(follower: Follower, offset: number): void {
    follower.offset = offset;
    this.#progressed();
  }

  unfollow(follower: Follower): void {
    this.#followers.delete(follower);
    this.#progressed();
  }

  /** Nothing is recorded when there is no stream. */
  async #record(begin: () => Promise<ExecStream | undefined>): Promise<void> {
    let stream: ExecStream | undefined;
    const deadline = this.#deadline();
    try {
      const beginning = begin();
      void beginning.then(
        (late) => this.#isOverdue && late?.detach(),
        () => undefined,
      );
      stream = await Promise.race([beginning, this.#overdue.promise]);
    } catch (error) {
      deadline?.stop();
      await this.#refused(error);
      return;
    }
    if (stream === undefined) {
      deadline?.stop();
      return;
    }
    this.#stream = stream;
    this.#begun.resolve(stream);
    if (this.#gone || this.#released) stream.detach();
    for await (const chunk of stream) {
      this.budget?.add(chunk.stream, chunk.bytes);
      deadline?.count(chunk.bytes.length);
      this.#isKeeping = true;
      await this.#output.write(chunk);
      this.#isKeeping = false;
      this.#announce();
    }
    deadline?.stop();
    const end = await stream.ended;
    if (this.#released) {
      await this.#output.release();
      return;
    }
    await this.#finish(
      this.#gone && end.reason === "unknown" ? { ...end, reason: "sandbox_gone" } : end,
    );
  }

  /** A terminal without a timeout has no deadline either. */
  #deadline(): ExecDeadline | undefined {
    const { timeoutMs, id } = this.#row;
    if (timeoutMs === undefined) return undefined;
    const { isFrozen, deadlineTimes } = this.#options;
    const isHeldUp = (): boolean => this.#isKeeping || isFrozen?.() === true;
    const giveUp = (): void => {
      this.#parts.log.warn({ exec: id }, "a sandbox owes the end of a command; it is given up");
      this.#isOverdue = true;
      this.#stream?.detach();
      this.#overdue.reject(
        new SandboxError(
          "SANDBOX_UNREACHABLE",
          `the sandbox did not begin or end the command ${id} in time; it may have run`,
        ),
      );
    };
    return new ExecDeadline(timeoutMs, isHeldUp, giveUp, deadlineTimes);
  }

  /** Resolves when nobody who follows still has to read what lies before the offset. */
  async #readBy(offset: number): Promise<void> {
    while (
      !this.#gone &&
      !this.#released &&
      [...this.#followers].some((follower) => follower.offset < offset)
    )
      await this.#progress.promise;
  }

  async #refused(error: unknown): Promise<void> {
    await this.#output.release();
    if (!this.#released && this.#row.status !== "done") {
      await this.#save({
        status: "done",
        endReason: this.#endReason(),
        endedAtMs: this.#parts.clock.nowMs(),
        durationMs: 0,
        request: "",
      });
      this.#reject(error);
    }
    this.#announce();
  }

  #endReason(): SilentEnd {
    if (!this.#mayHaveRun) return "not_started";
    return this.#gone ? "sandbox_gone" : "unknown";
  }

  #reject(error: unknown): void {
    const failure = error instanceof Error ? error : new Error(String(error));
    this.#failure = failure;
    this.#begun.reject(failure);
    this.#ended.reject(failure);
  }

  async #finish(end: ExecEnd): Promise<void> {
    const { stdoutBytes, stderrBytes, droppedBytes } = this.#output.counts;
    await this.#output.close();
    const patch: ExecPatch = {
      status: "done",
      endReason: end.reason,
      endedAtMs: this.#parts.clock.nowMs(),
      durationMs: end.durationMs,
      stdoutBytes: Math.max(stdoutBytes, end.stdoutBytes),
      stderrBytes: Math.max(stderrBytes, end.stderrBytes),
      droppedBytes: droppedBytes + end.droppedBytes,
      shellRestarted: end.shellRestarted,
      request: "",
      background: end.outputOpen,
      ...(end.exitCode !== undefined && { exitCode: end.exitCode }),
      ...(end.signal !== undefined && { signal: end.signal }),
      ...(end.cwd !== undefined && { cwd: end.cwd }),
    };
    this.#change(patch);
    this.#ended.resolve(this.#row);
    this.#announce();
    // Whoever waits is answered first: a daemon that is killed before this is written down learns of
    // the end from the sandbox again.
    this.#written = setImmediate().then(() => this.#store(patch));
    await this.#written;
  }

  async #save(patch: ExecPatch): Promise<void> {
    this.#change(patch);
    await this.#store(patch);
  }

  /** What was asked for is the store's to keep: it may be long. */
  #change(patch: ExecPatch): void {
    const { request: _, ...row } = { ...this.#row, ...patch };
    this.#row = row;
  }

  async #store(patch: ExecPatch): Promise<void> {
    try {
      const { sessionId, id } = this.#row;
      await this.#parts.store.updateExec(sessionId, id, this.#options.fence, patch);
      // Behind the store: whoever finds a command unfinished there tells of its end, once.
      if (patch.status === "done")
        this.#parts.events.tell(execEnded(this.#row, this.#options.runtime));
    } catch (error) {
      // The next daemon will call it unknown; whoever waits now gets the truth.
      this.#parts.log.error(
        { err: error, exec: this.#row.id },
        "cannot write a command's end down",
      );
    }
  }

  #announce(): void {
    const news = this.#news;
    this.#news = Promise.withResolvers();
    news.resolve();
  }

  #progressed(): void {
    const progress = this.#progress;
    this.#progress = Promise.withResolvers();
    progress.resolve();
  }
}

/** Whether something is there that does not answer, rather than nothing. */
function isSilence(error: unknown): boolean {
  return error instanceof SandboxError && error.details?.["reason"] === "unresponsive";
}

/** Whether the sandbox does not know the command. */
function isNotFound(error: unknown): boolean {
  return error instanceof SandboxError && error.code === "EXEC_NOT_FOUND";
}

function endWithoutWord(execId: string, reason: SilentEnd): ExecEnd {
  return {
    execId,
    reason,
    durationMs: 0,
    stdoutBytes: 0,
    stderrBytes: 0,
    droppedBytes: 0,
    shellRestarted: false,
    outputOpen: false,
  };
}
