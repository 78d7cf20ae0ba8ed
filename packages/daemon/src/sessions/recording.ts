/** One command while it runs: its output goes into the journal, its end into the store, and whoever waits is told. */
import { setImmediate } from "node:timers/promises";
import { SandboxError } from "@sandkasten/protocol";
import type {
  Channel,
  ExecCommand,
  ExecEnd,
  ExecOptions,
  ExecStream,
  OutputChunk,
} from "../ports/channel.ts";
import type { Clock } from "../ports/clock.ts";
import type { ExecJournal, JournalWriter } from "../ports/exec-journal.ts";
import type { Log } from "../ports/log.ts";
import type { ExecPatch, ExecRow, SessionStore } from "../ports/session-store.ts";
import type { OutputBudget } from "./output-budget.ts";

export interface RecordingParts {
  readonly store: SessionStore;
  readonly journal: ExecJournal;
  readonly clock: Clock;
  readonly log: Log;
}

export interface RecordingOptions {
  /** Absent when the beginning of the output was not seen. */
  readonly budget?: OutputBudget;
  readonly isTerminal: boolean;
}

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
  #stream: ExecStream | undefined;
  #failure: Error | undefined;
  #writer: JournalWriter | undefined;
  #lostBytes = 0;
  /** Settles when the end is in the store. */
  #written: Promise<void> = Promise.resolve();
  #news = Promise.withResolvers<void>();
  #progress = Promise.withResolvers<void>();
  #gone = false;
  #released = false;

  constructor(row: ExecRow, options: RecordingOptions, parts: RecordingParts) {
    this.#row = row;
    this.budget = options.budget;
    this.#isTerminal = options.isTerminal;
    this.#parts = parts;
    this.#ended.promise.catch(() => undefined);
    this.#begun.promise.catch(() => undefined);
  }

  /** As it is now; of a running command with what it has printed so far. */
  get row(): ExecRow {
    if (this.#row.status !== "running" || this.#writer === undefined) return this.#row;
    const { stdoutBytes, stderrBytes, droppedBytes } = this.#writer;
    return { ...this.#row, stdoutBytes, stderrBytes, droppedBytes };
  }

  /** Settles with the row when the command has ended. Rejects when the sandbox refused to run it, or the daemon stops. */
  get ended(): Promise<ExecRow> {
    return this.#ended.promise;
  }

  /** A terminal that nobody sits at is no use of its session, however long it stays open. */
  get isUnattended(): boolean {
    return this.#isTerminal && this.#followers.size === 0;
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
      return await channel.exec(command, options);
    });
  }

  /** Goes on with a command that an earlier daemon began. */
  async resume(channel: Channel): Promise<void> {
    const writer = await this.#openWriter();
    const offset = writer.endOffset;
    await this.#record(async () => {
      const attach = (stdin: boolean): Promise<ExecStream> =>
        channel.attach(this.#row.id, { offset, ...(stdin && { stdin: true }) });
      try {
        return await attach(true);
      } catch (error) {
        // It was started without an input to write to.
        if (error instanceof SandboxError && error.code === "EXEC_NOT_FOUND") throw error;
        return await attach(false);
      }
    });
  }

  /** Ends it without the sandbox's word, because there is no sandbox any more, or it never ran. */
  async abandon(reason: "sandbox_gone" | "unknown" | "killed"): Promise<void> {
    // The sandbox, which alone knows of the end until it is written down, goes now.
    if (this.#row.status === "done") return await this.#written;
    this.#gone = true;
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
    await this.#finish(endWithoutWord(this.#row.id, reason));
  }

  /** It could not even be begun. */
  async fail(error: unknown): Promise<void> {
    if (this.#row.status !== "done") await this.#refused(error);
  }

  /** The daemon stops: the command goes on, and the next daemon goes on with the recording. */
  release(): void {
    this.#released = true;
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

  async #record(begin: () => Promise<ExecStream>): Promise<void> {
    let stream: ExecStream;
    try {
      stream = await begin();
    } catch (error) {
      await this.#refused(error);
      return;
    }
    this.#stream = stream;
    this.#begun.resolve(stream);
    if (this.#gone || this.#released) stream.detach();
    for await (const chunk of stream) {
      this.budget?.add(chunk.stream, chunk.bytes);
      await this.#write(chunk);
      this.#announce();
    }
    const end = await stream.ended;
    if (this.#released) {
      await this.#writer?.close();
      return;
    }
    await this.#finish(
      this.#gone && end.reason === "unknown" ? { ...end, reason: "sandbox_gone" } : end,
    );
  }

  async #write(chunk: OutputChunk): Promise<void> {
    const { bytes } = chunk;
    if (this.#lostBytes > 0) {
      this.#lostBytes += bytes.length;
      return;
    }
    try {
      await writeChunk(await this.#openWriter(), chunk, this.#parts.clock.nowMs());
    } catch (error) {
      // The command shall not fail because its output cannot be kept; how much is lost is said.
      this.#lostBytes = bytes.length;
      this.#parts.log.error({ err: error, exec: this.#row.id }, "cannot keep a command's output");
    }
  }

  async #openWriter(): Promise<JournalWriter> {
    this.#writer ??= await this.#parts.journal.write(this.#row.sessionId, this.#row.id, (offset) =>
      this.#readBy(offset),
    );
    return this.#writer;
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
    await this.#writer?.close();
    if (!this.#released && this.#row.status !== "done") {
      await this.#save({
        status: "done",
        endReason: this.#gone ? "sandbox_gone" : "unknown",
        endedAtMs: this.#parts.clock.nowMs(),
        durationMs: 0,
      });
      this.#reject(error);
    }
    this.#announce();
  }

  #reject(error: unknown): void {
    const failure = error instanceof Error ? error : new Error(String(error));
    this.#failure = failure;
    this.#begun.reject(failure);
    this.#ended.reject(failure);
  }

  async #finish(end: ExecEnd): Promise<void> {
    const { stdoutBytes, stderrBytes, droppedBytes } = this.#writer ?? NOTHING_WRITTEN;
    await this.#writer?.close();
    const patch: ExecPatch = {
      status: "done",
      endReason: end.reason,
      endedAtMs: this.#parts.clock.nowMs(),
      durationMs: end.durationMs,
      stdoutBytes: Math.max(stdoutBytes, end.stdoutBytes),
      stderrBytes: Math.max(stderrBytes, end.stderrBytes),
      droppedBytes: droppedBytes + end.droppedBytes + this.#lostBytes,
      shellRestarted: end.shellRestarted,
      ...(end.exitCode !== undefined && { exitCode: end.exitCode }),
      ...(end.signal !== undefined && { signal: end.signal }),
      ...(end.cwd !== undefined && { cwd: end.cwd }),
    };
    this.#row = { ...this.#row, ...patch };
    this.#ended.resolve(this.#row);
    this.#announce();
    // Whoever waits is answered first: a daemon that is killed before this is written down learns of
    // the end from the sandbox again.
    this.#written = setImmediate().then(() => this.#store(patch));
    await this.#written;
  }

  async #save(patch: ExecPatch): Promise<void> {
    this.#row = { ...this.#row, ...patch };
    await this.#store(patch);
  }

  async #store(patch: ExecPatch): Promise<void> {
    try {
      await this.#parts.store.updateExec(this.#row.sessionId, this.#row.id, patch);
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

/** Where the sandbox kept only the newest, the journal has a gap. */
export async function writeChunk(
  writer: JournalWriter,
  { stream, offset, bytes }: OutputChunk,
  nowMs: number,
): Promise<void> {
  if (offset > writer.endOffset) await writer.skip(offset - writer.endOffset);
  await writer.append(stream, bytes, nowMs);
}

const NOTHING_WRITTEN = { stdoutBytes: 0, stderrBytes: 0, droppedBytes: 0 };

function endWithoutWord(execId: string, reason: "sandbox_gone" | "unknown" | "killed"): ExecEnd {
  return {
    execId,
    reason,
    durationMs: 0,
    stdoutBytes: 0,
    stderrBytes: 0,
    droppedBytes: 0,
    shellRestarted: false,
  };
}
