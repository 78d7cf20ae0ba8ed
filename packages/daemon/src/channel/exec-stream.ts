/** A running command as its reader sees it: one output stream that survives lost connections. */
import { execEndSchema, ProtocolError, startedEventSchema } from "@sandkasten/protocol";
import type { ExecEndReason, RunnerRequest } from "@sandkasten/protocol";
import type { ExecEnd, ExecStream, OutputChunk } from "../ports/channel.ts";
import { outcomeError } from "./call.ts";
import { checked } from "./checked-message.ts";
import type { Connection } from "./connection.ts";
import { ConnectionFailure } from "./connection-failure.ts";
import type { ConnectionHolder } from "./connection-holder.ts";
import { EndWatch } from "./end-watch.ts";
import type { ExecRequest } from "./exec-request.ts";
import { OutputReader } from "./output-reader.ts";
import { reconnect } from "./reconnect.ts";
import { StdinWriter } from "./stdin-writer.ts";
import { StreamSink } from "./stream-sink.ts";
import type { StreamOutcome } from "./stream-sink.ts";
import { cancelled } from "./translate-errors.ts";
import type { WireStream } from "./wire-stream.ts";

/** Consecutive losses without a frame in between, after which the command counts as lost. */
const MAX_FRUITLESS_ATTACHMENTS = 5;

export interface ExecStreamOptions {
  readonly execId: string;
  /** What to send first: an exec with its text, or an attach. */
  readonly first: ExecRequest;
  readonly offset: number;
  readonly until: "done" | "closed";
  readonly stdin: boolean;
  readonly timeoutMs?: number | undefined;
}

export class RunnerExecStream implements ExecStream {
  readonly execId: string;
  readonly #options: ExecStreamOptions;
  readonly #holder: ConnectionHolder;
  readonly #reader: OutputReader;
  readonly #stdin: StdinWriter;
  readonly #endWatch: EndWatch;
  readonly #begun = Promise.withResolvers<void>();
  readonly #ended = Promise.withResolvers<ExecEnd>();
  readonly #createdAtMs = performance.now();
  #connection: Connection | undefined;
  #stream: WireStream | undefined;
  #end: ExecEnd | undefined;
  #hasBegun = false;
  #started = false;
  #detached = false;
  #reading = false;
  #fruitlessAttachments = 0;

  private constructor(holder: ConnectionHolder, options: ExecStreamOptions) {
    this.execId = options.execId;
    this.#options = options;
    this.#holder = holder;
    this.#reader = new OutputReader(options.offset);
    this.#stdin = new StdinWriter(options.execId, options.stdin);
    this.#endWatch = new EndWatch(holder, options.timeoutMs, () => this.#missedEnd());
    this.#begun.promise.catch(() => undefined);
  }

  /**
   * Resolves when the command has started or its stream has something to report. Rejects if the
   * runner refuses it. Once the request was sent, a lost sandbox ends the command instead of
   * rejecting.
   */
  static async open(
    holder: ConnectionHolder,
    connection: Connection,
    options: ExecStreamOptions,
    signal?: AbortSignal,
  ): Promise<RunnerExecStream> {
    if (signal?.aborted === true) throw cancelled(options.first.request.op, signal);
    const exec = new RunnerExecStream(holder, options);
    exec.#attachTo(connection);
    const giveUp = (): void => {
      exec.#begun.reject(cancelled(options.first.request.op, signal));
      exec.detach();
    };
    signal?.addEventListener("abort", giveUp, { once: true });
    void exec.#ended.promise.then(() => signal?.removeEventListener("abort", giveUp));
    await exec.#begun.promise;
    return exec;
  }

  get ended(): Promise<ExecEnd> {
    return this.#ended.promise;
  }

  [Symbol.asyncIterator](): AsyncIterator<OutputChunk, undefined> {
    return {
      next: async () => {
        this.#reading = true;
        const value = await this.#reader.next();
        if (value !== undefined) return { done: false, value };
        this.#stopReading();
        return { done: true, value: undefined };
      },
      return: () => {
        this.#reader.consume();
        this.#stopReading();
        return Promise.resolve({ done: true, value: undefined });
      },
    };
  }

  writeStdin(bytes: Uint8Array): Promise<void> {
    return this.#stdin.write(bytes);
  }

  closeStdin(): Promise<void> {
    return this.#stdin.close();
  }

  detach(): void {
    if (this.#detached) return;
    this.#detached = true;
    this.#letGo();
    this.#reader.discard();
    this.#finish(this.#unknownEnd("unknown"));
    this.#settle();
  }

  #attachTo(connection: Connection, essential = false): void {
    this.#connection = connection;
    // Until the runner confirms the command, the exec itself is resent: its id ensures that it runs
    // only once.
    const { request, body } = this.#hasBegun
      ? { request: this.#attachRequest(), body: undefined }
      : this.#options.first;
    const sink = new ExecSink(this, request.op);
    const stream = connection.openStream(request, sink, { body, essential });
    if (!stream.open) return;
    this.#stream = stream;
    this.#reader.attachTo(stream);
    this.#stdin.attachTo(stream);
  }

  #attachRequest(): RunnerRequest {
    return {
      op: "attach",
      exec_id: this.execId,
      offset: this.#reader.consumedOffset,
      until: this.#options.until,
      ...(this.#stdin.resumable && { stdin: true }),
    };
  }

  /** Records that the runner knows the command. */
  #begin(): void {
    this.#fruitlessAttachments = 0;
    this.#hasBegun = true;
    this.#begun.resolve();
  }

  /** @internal for the sink */
  receiveStarted(message: Record<string, unknown>): void {
    const { exec_id } = checked(startedEventSchema, message, "started event");
    if (exec_id !== this.execId)
      throw new ProtocolError("bad_message", `the runner answered ${this.execId} for ${exec_id}`);
    this.#started = true;
    this.#endWatch.start();
    this.#begin();
  }

  /** @internal for the sink */
  receiveOutput(payload: Buffer): void {
    if (!this.#started)
      throw new ProtocolError(
        "unexpected_frame",
        "the runner sent output for a command that it has not started",
      );
    this.#reader.receive(payload);
    this.#begin();
  }

  /** @internal for the sink */
  receiveOutcome(outcome: StreamOutcome, op: RunnerRequest["op"]): void {
    switch (outcome.kind) {
      case "response":
        this.#receiveEnd(outcome.message);
        return;
      case "error":
        if (this.#hasBegun) this.#fail("unknown");
        else {
          this.#begun.reject(outcomeError(op, outcome));
          this.detach();
        }
        return;
      case "stalled":
        this.#fail("unknown");
        return;
      case "lost":
        this.#stream = undefined;
        this.#stdin.lose();
        void this.#recover(outcome.failure);
    }
  }

  #receiveEnd(message: Record<string, unknown>): void {
    const end = checked(execEndSchema, message, "end of a command");
    if (end.execId !== this.execId)
      throw new ProtocolError(
        "bad_message",
        `the runner answered ${this.execId} for ${end.execId}`,
      );
    // Only a command that never ran may end before it started.
    if (!this.#started && end.reason === "exited") {
      throw new ProtocolError(
        "unexpected_frame",
        "the runner reported the exit of a command that it has not started",
      );
    }
    this.#begin();
    this.#finish(end);
  }

  /**
   * SECURITY: a failure in transit never counts as success: the end is `unknown` or `sandbox_gone`
   * (threats: forged results, broken connections and a killed daemon). Guarded by
   * hostile-runner.test.ts.
   */
  #fail(reason: "unknown" | "sandbox_gone"): void {
    this.#letGo();
    this.#finish(this.#unknownEnd(reason));
  }

  #finish(end: ExecEnd): void {
    if (this.#end !== undefined) return;
    this.#end = end;
    this.#endWatch.stop();
    this.#stdin.end();
    this.#begun.resolve();
    this.#reader.close();
    if (!this.#reading || !this.#reader.hasWaiting) this.#settle();
  }

  #settle(): void {
    if (this.#end !== undefined) this.#ended.resolve(this.#end);
  }

  #stopReading(): void {
    this.#reading = false;
    this.#settle();
  }

  #letGo(): void {
    if (this.#stream !== undefined) this.#connection?.cancel(this.#stream);
  }

  #missedEnd(): boolean {
    if (this.#stream === undefined || this.#stream.unconsumedBytes > 0) return false;
    this.#fail("unknown");
    return true;
  }

  async #recover(failure: ConnectionFailure): Promise<void> {
    if (this.#end !== undefined) return;
    const bootId = this.#connection?.hello.bootId;
    this.#fruitlessAttachments++;
    if (
      failure.kind === "protocol" ||
      failure.kind === "closed" ||
      this.#fruitlessAttachments > MAX_FRUITLESS_ATTACHMENTS
    ) {
      this.#fail("unknown");
      return;
    }
    const found = await reconnect(this.#holder, {
      losses: this.#fruitlessAttachments,
      patienceMs: this.#endWatch.reattachMs,
      givenUp: () => this.#end !== undefined,
      hasTimeLeft: () => this.#endWatch.isPending,
    });
    if (this.#end !== undefined) return;
    if (found instanceof ConnectionFailure)
      this.#fail(found.kind === "refused" ? "sandbox_gone" : "unknown");
    else if (found.hello.bootId !== bootId) this.#fail("sandbox_gone");
    else this.#attachTo(found, true);
  }

  #unknownEnd(reason: Extract<ExecEndReason, "unknown" | "sandbox_gone">): ExecEnd {
    return {
      execId: this.execId,
      reason,
      durationMs: Math.round(performance.now() - this.#createdAtMs),
      stdoutBytes: this.#reader.stdoutBytes,
      stderrBytes: this.#reader.stderrBytes,
      droppedBytes: 0,
      shellRestarted: false,
      outputOpen: false,
    };
  }
}

/** Separates the frames of one attachment from those of the next. */
class ExecSink extends StreamSink {
  readonly #exec: RunnerExecStream;
  readonly #op: RunnerRequest["op"];
  #sawStarted = false;

  constructor(exec: RunnerExecStream, op: RunnerRequest["op"]) {
    super();
    this.#exec = exec;
    this.#op = op;
  }

  override event(message: Record<string, unknown>): void {
    if (this.#sawStarted) {
      super.event(message);
      return;
    }
    this.#exec.receiveStarted(message);
    this.#sawStarted = true;
  }

  override output(payload: Buffer): void {
    this.#exec.receiveOutput(payload);
  }

  override finish(outcome: StreamOutcome): void {
    this.#exec.receiveOutcome(outcome, this.#op);
  }
}
