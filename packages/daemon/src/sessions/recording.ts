/**
 * A running command: its output goes to the journal, its end to the store, and waiting callers are
 * notified.
 */
import { SandboxError } from "@sandkasten/protocol";
import type { Channel, ExecCommand, ExecEnd, ExecOptions, ExecStream } from "../ports/channel.ts";
import type { Clock } from "../ports/clock.ts";
import type { ExecJournal } from "../ports/exec-journal.ts";
import type { Log } from "../ports/log.ts";
import type { ExecPatch, ExecRow, SessionStore } from "../ports/session-store.ts";
import { attachWhileFrozen } from "./attach-while-frozen.ts";
import { ExecDeadline } from "./exec-deadline.ts";
import type { DeadlineTimes } from "./exec-deadline.ts";
import { endWithoutReport } from "./exec-end.ts";
import type { SilentEnd } from "./exec-end.ts";
import { Followers } from "./followers.ts";
import type { ReservedPlace } from "./ordered-events.ts";
import type { OutputBudget } from "./output-budget.ts";
import { OutputWriter } from "./output-writer.ts";
import { execEnded } from "./session-events.ts";

export interface RecordingParts {
  readonly store: SessionStore;
  readonly journal: ExecJournal;
  readonly clock: Clock;
  readonly log: Log;
}

export interface RecordingOptions {
  /** Absent if the beginning of the output was not seen. */
  readonly budget?: OutputBudget;
  readonly isTerminal: boolean;
  /** The interpreter, if the command does not show it. */
  readonly runtime?: string | undefined;
  /** The token with which its session is served. */
  readonly fence: number;
  /** Where its end belongs among the events of its session. */
  readonly placeOfEnd: (execId: string) => ReservedPlace;
  /** An earlier daemon may have sent it to the sandbox. */
  readonly mayHaveRun?: boolean;
  /** Whether the sandbox is paused. */
  readonly isFrozen?: () => boolean;
  readonly deadlineTimes?: DeadlineTimes | undefined;
}

export class Recording {
  /** Head and tail of the output; absent if the beginning was not seen. */
  readonly budget: OutputBudget | undefined;
  readonly followers = new Followers();
  /** Resolves when all consequences of its end are done. */
  settled: Promise<void> = Promise.resolve();
  readonly #parts: RecordingParts;
  readonly #isTerminal: boolean;
  readonly #ended = Promise.withResolvers<ExecRow>();
  /** Absent after the end: ended commands stay in memory for a while, and their streams need not. */
  #begun: PromiseWithResolvers<ExecStream> | undefined = Promise.withResolvers<ExecStream>();
  #row: ExecRow;
  /** The sandbox may know the command. */
  #mayHaveRun: boolean;
  #stream: ExecStream | undefined;
  #failure: Error | undefined;
  readonly #output: OutputWriter;
  /** Settles when the end is stored. */
  #written: Promise<void> = Promise.resolve();
  /** Present while a caller waits for it. */
  #news: PromiseWithResolvers<void> | undefined;
  #gone = false;
  #released = false;
  readonly #options: RecordingOptions;
  /** Cancels a command that is still queued. Few commands wait, so it is created on demand. */
  #queue: AbortController | undefined;
  /** The sandbox is overdue with the command's beginning or end. */
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
        parts.journal.write(
          row.sessionId,
          row.id,
          (offset) => this.followers.readBy(offset),
          options.fence,
        ),
      parts,
    );
    this.#ended.promise.catch(() => undefined);
    this.#begun?.promise.catch(() => undefined);
  }

  /** The current row; for a running command with its output so far. */
  get row(): ExecRow {
    const isChanging = this.#row.status === "running" && this.#output.hasBegun;
    return isChanging ? { ...this.#row, ...this.#output.counts } : this.#row;
  }

  /**
   * Settles with the row when the command has ended. Rejects if the sandbox refused to run it, or
   * the daemon stops.
   */
  get ended(): Promise<ExecRow> {
    return this.#ended.promise;
  }

  /** An unattended terminal does not count as use of its session. */
  get isUnattended(): boolean {
    return this.#isTerminal && this.followers.isEmpty && this.#row.status !== "done";
  }

  /** Fires if the command, still queued, is cancelled. */
  get cancelled(): AbortSignal {
    return this.#cancellation.signal;
  }

  get isCancelled(): boolean {
    return this.#queue?.signal.aborted === true;
  }

  /** Resolves when its end, if it has ended, is stored. */
  get written(): Promise<void> {
    return this.#written;
  }

  /** Resolves when the sandbox has started it. */
  get begun(): Promise<ExecStream> {
    return this.#begun?.promise ?? Promise.reject(hasEnded(this.#row.id));
  }

  /** For readers: the end of the output alone does not reveal a failure. */
  throwIfFailed(): void {
    if (this.#failure !== undefined) throw this.#failure;
  }

  /** Runs a new command to its end, which may not be stored yet. */
  async run(channel: Channel, command: ExecCommand, options: ExecOptions): Promise<void> {
    await this.#record(async () => {
      if (this.#row.status === "queued") await this.#save({ status: "running" });
      this.#queue?.signal.throwIfAborted();
      this.#mayHaveRun = true;
      try {
        return await channel.exec(command, options);
      } catch (error) {
        // The channel rejects only if the sandbox did not accept the command.
        this.#mayHaveRun = false;
        throw error;
      }
    });
  }

  /** Continues a command that an earlier daemon began. False if the sandbox does not know it. */
  async resume(channel: Channel): Promise<boolean> {
    const { endOffset: offset } = await this.#output.open();
    const attach = (stdin: boolean): Promise<ExecStream> =>
      channel.attach(this.#row.id, { offset, ...(stdin && { stdin: true }) });
    let isKnown = true;
    await this.#record(async () => {
      try {
        return await attachWhileFrozen(
          () => attach(true),
          this.#row.timeoutMs,
          () => this.#gone || this.#released,
        );
      } catch (error) {
        isKnown = !isNotFound(error);
        // It was started without stdin.
        return isKnown ? await attach(false) : undefined;
      }
    });
    return isKnown;
  }

  /** Ends it without the sandbox's report, because the sandbox is gone, or the command never ran. */
  async abandon(reason: SilentEnd): Promise<void> {
    // Until the end is stored, only the sandbox knows it, and the sandbox is going away now.
    if (this.#row.status === "done") return await this.#written;
    this.#gone = true;
    this.#output.stop();
    this.followers.stop();
    this.#stream?.detach();
    if (this.#stream !== undefined) {
      // The pump sees the end of the stream and stores it.
      await this.#ended.promise.catch(() => undefined);
      await this.#written;
      return;
    }
    this.#cancellation.abort(
      new SandboxError("CANCELLED", "the command was cancelled before it began"),
    );
    this.#begun?.reject(new SandboxError("CONFLICT", `the command ${this.#row.id} was cancelled`));
    const never = reason === "sandbox_gone" && !this.#mayHaveRun;
    await this.#finish(endWithoutReport(this.#row.id, never ? "not_started" : reason));
    await this.#written;
  }

  /** Called if it could not be started. */
  async fail(error: unknown): Promise<void> {
    if (this.#row.status !== "done") await this.#refused(error);
  }

  /** The daemon stops: the command continues, and the next daemon resumes the recording. */
  release(): void {
    this.#released = true;
    this.#output.stop();
    this.#reject(
      new SandboxError(
        "SANDBOX_UNREACHABLE",
        `the daemon is stopping; the command ${this.#row.id} continues, so retry in a moment`,
      ),
    );
    this.#cancellation.abort(new SandboxError("CANCELLED", "the daemon is stopping"));
    this.#stream?.detach();
    this.followers.stop();
    this.#announce();
  }

  /** Resolves at the next output, or when it ends. */
  async changed(): Promise<void> {
    this.#news ??= Promise.withResolvers();
    await this.#news.promise;
  }

  /** Records nothing if there is no stream. */
  async #record(begin: () => Promise<ExecStream | undefined>): Promise<void> {
    const beginning = Promise.withResolvers<ExecStream | undefined>();
    const deadline = this.#deadline(beginning.reject);
    begin().then((late) => {
      if (this.#isOverdue) late?.detach();
      else beginning.resolve(late);
    }, beginning.reject);
    let stream: ExecStream | undefined;
    try {
      stream = await beginning.promise;
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
    this.#begun?.resolve(stream);
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

  /** `fail` is called when it passes. A terminal without a timeout has none. */
  #deadline(fail: (error: SandboxError) => void): ExecDeadline | undefined {
    const { timeoutMs, id } = this.#row;
    if (timeoutMs === undefined) return undefined;
    const { isFrozen, deadlineTimes } = this.#options;
    const isHeldUp = (): boolean => this.#isKeeping || isFrozen?.() === true;
    const giveUp = (): void => {
      this.#parts.log.warn(
        { exec: id },
        "a sandbox did not report a command's end; stopped waiting",
      );
      this.#isOverdue = true;
      this.#stream?.detach();
      fail(
        new SandboxError(
          "SANDBOX_UNREACHABLE",
          `the sandbox did not begin or end the command ${id} in time; it may have run`,
        ),
      );
    };
    return new ExecDeadline(timeoutMs, isHeldUp, giveUp, deadlineTimes);
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
    this.#begun?.reject(failure);
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
    this.#stream = undefined;
    this.#begun = undefined;
    this.#ended.resolve(this.#row);
    this.#announce();
    // Waiting callers do not wait for this: if the daemon is killed before it is stored, the next one
    // learns the end from the sandbox again.
    this.#written = this.#store(patch);
  }

  async #save(patch: ExecPatch): Promise<void> {
    this.#change(patch);
    await this.#store(patch);
  }

  /** The request stays in the store only, since it may be long. */
  #change(patch: ExecPatch): void {
    const { request: _, ...shown } = patch;
    this.#row = { ...this.#row, ...shown };
  }

  async #store(patch: ExecPatch): Promise<void> {
    const { sessionId, id } = this.#row;
    using place = patch.status === "done" ? this.#options.placeOfEnd(id) : undefined;
    try {
      await this.#parts.store.updateExec(sessionId, id, this.#options.fence, patch);
      // After the store: a daemon that finds a command unfinished there reports its end, once.
      place?.fill(execEnded(this.#row, this.#options.runtime));
    } catch (error) {
      // The next daemon will report it as unknown; callers waiting now get the real end.
      this.#parts.log.error({ err: error, exec: this.#row.id }, "cannot store a command's end");
    }
  }

  get #cancellation(): AbortController {
    return (this.#queue ??= new AbortController());
  }

  #announce(): void {
    this.#news?.resolve();
    this.#news = undefined;
  }
}

/** Input for a command that accepts none any more. */
export function hasEnded(execId: string): SandboxError {
  return new SandboxError("CONFLICT", `the command ${execId} has ended and accepts no input`);
}

/** Whether the sandbox does not know the command. */
function isNotFound(error: unknown): boolean {
  return error instanceof SandboxError && error.code === "EXEC_NOT_FOUND";
}
