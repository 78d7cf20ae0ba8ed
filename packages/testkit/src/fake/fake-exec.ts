/** A command in the fake sandbox: its output, its input and its end. */
import type { ExecEndReason, OutputStream } from "@sandkasten/protocol";
import { SandboxError } from "@sandkasten/protocol";
import type {
  ExecEnd,
  ExecInfo,
  ExecOptions,
  ExecStream,
  OutputChunk,
  TerminalSize,
} from "../ports.ts";

export class FakeExec {
  readonly mode: "shell" | "process";
  readonly options: ExecOptions;
  /** The size of its terminal, if it has one. */
  terminal: TerminalSize | undefined;
  readonly killed = new AbortController();
  readonly chunks: OutputChunk[] = [];
  state: ExecInfo["state"] = "queued";
  end: ExecEnd | undefined;
  /** Background work that still holds the output. */
  lingering = 0;
  readonly #counts = { stdout: 0, stderr: 0 };
  readonly #createdAtMs = performance.now();
  readonly #input: Uint8Array[] = [];
  #inputClosed: boolean;
  #doneAtChunk = 0;
  #changed = Promise.withResolvers<void>();

  constructor(mode: "shell" | "process", options: ExecOptions, terminal?: TerminalSize) {
    this.mode = mode;
    this.options = options;
    this.terminal = terminal;
    this.#inputClosed = options.stdin !== true;
  }

  /** Resolves at the next output, input, start or end. */
  get changed(): Promise<void> {
    return this.#changed.promise;
  }

  get endReason(): ExecEndReason | undefined {
    return this.killed.signal.aborted
      ? (this.killed.signal.reason as { reason: ExecEndReason }).reason
      : undefined;
  }

  get info(): ExecInfo {
    return {
      execId: this.options.execId,
      mode: this.mode,
      state: this.state,
      ageMs: this.#ageMs(),
      stdoutBytes: this.#counts.stdout,
      stderrBytes: this.#counts.stderr,
      ...(this.end !== undefined && { end: this.end }),
    };
  }

  start(): void {
    this.state = "running";
    this.change();
  }

  write(fd: 1 | 2, bytes: Uint8Array): void {
    if (bytes.byteLength === 0) return;
    const merged = this.options.merge === true || this.terminal !== undefined;
    const stream: OutputStream = fd === 2 && !merged ? "stderr" : "stdout";
    const last = this.chunks.at(-1);
    const offset = last === undefined ? 0 : last.offset + last.bytes.byteLength;
    this.chunks.push({ stream, seq: this.chunks.length, offset, bytes: Uint8Array.from(bytes) });
    this.#counts[stream] += bytes.byteLength;
    this.change();
  }

  kill(reason: "timeout" | "idle_timeout" | "killed" | "cancelled", signal?: number): void {
    this.killed.abort({ reason, signal });
  }

  finish(exitCode: number, extra: { cwd?: string; shellRestarted: boolean }): void {
    const how = this.killed.signal.aborted
      ? (this.killed.signal.reason as { reason: ExecEndReason; signal?: number })
      : undefined;
    const signal = how?.signal;
    this.end = {
      execId: this.options.execId,
      reason: how?.reason ?? "exited",
      exitCode: how === undefined ? exitCode : killedExitCode(how.reason, signal),
      ...(signal !== undefined && { signal }),
      ...(extra.cwd !== undefined && { cwd: extra.cwd }),
      durationMs: this.#ageMs(),
      stdoutBytes: this.#counts.stdout,
      stderrBytes: this.#counts.stderr,
      droppedBytes: 0,
      shellRestarted: extra.shellRestarted,
      outputOpen: this.lingering > 0,
    };
    this.#doneAtChunk = this.chunks.length;
    this.state = "done";
    this.change();
  }

  change(): void {
    const { resolve } = this.#changed;
    this.#changed = Promise.withResolvers();
    resolve();
  }

  async *input(): AsyncGenerator<Uint8Array, void> {
    for (;;) {
      const bytes = this.#input.shift();
      if (bytes !== undefined) yield bytes;
      else if (this.#inputClosed) return;
      else {
        this.killed.signal.throwIfAborted();
        await Promise.race([this.changed, aborted(this.killed.signal)]);
      }
    }
  }

  writeInput(bytes: Uint8Array): void {
    if (this.#inputClosed || this.state === "done") {
      throw new SandboxError("CONFLICT", `the command ${this.options.execId} takes no input`);
    }
    this.#input.push(Uint8Array.from(bytes));
    this.change();
  }

  closeInput(): void {
    this.#inputClosed = true;
    this.change();
  }

  /** How many chunks a reader gets, and whether more can follow. */
  extent(until: "done" | "closed"): { readonly chunks: number; readonly complete: boolean } {
    if (this.end === undefined) return { chunks: this.chunks.length, complete: false };
    if (until === "done") return { chunks: this.#doneAtChunk, complete: true };
    return { chunks: this.chunks.length, complete: this.lingering === 0 };
  }

  #ageMs(): number {
    return Math.round(performance.now() - this.#createdAtMs);
  }
}

function killedExitCode(reason: ExecEndReason, signal: number | undefined): number {
  if (reason === "cancelled") return 130;
  return signal === undefined ? 124 : 128 + signal;
}

function aborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) =>
    signal.addEventListener("abort", () => resolve(), { once: true }),
  );
}

/** One reader of a fake command. */
export class FakeExecStream implements ExecStream {
  readonly execId: string;
  readonly ended: Promise<ExecEnd>;
  readonly #exec: FakeExec;
  readonly #until: "done" | "closed";
  readonly #stdin: boolean;
  readonly #left = new AbortController();
  readonly #settled = Promise.withResolvers<ExecEnd>();
  #offset: number;
  #reading = false;

  constructor(
    exec: FakeExec,
    offset: number,
    until: "done" | "closed",
    stdin: boolean,
    closed: AbortSignal,
  ) {
    this.#exec = exec;
    this.execId = exec.options.execId;
    this.#offset = offset;
    this.#until = until;
    this.#stdin = stdin;
    this.ended = this.#settled.promise;
    closed.addEventListener("abort", () => this.detach(), { once: true });
    void this.#follow();
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<OutputChunk, undefined> {
    this.#reading = true;
    try {
      for (;;) {
        if (this.#left.signal.aborted) return undefined;
        const { chunks, complete } = this.#exec.extent(this.#until);
        const next = this.#exec.chunks
          .slice(0, chunks)
          .find((c) => c.offset + c.bytes.byteLength > this.#offset);
        if (next !== undefined) {
          const skip = Math.max(0, this.#offset - next.offset);
          this.#offset = next.offset + next.bytes.byteLength;
          const bytes = next.bytes.slice(skip);
          yield { ...next, offset: next.offset + skip, bytes };
          // The port allows a sandbox to reuse the memory: readers that keep it without a copy must
          // notice.
          bytes.fill(0);
        } else if (complete) return undefined;
        else await Promise.race([this.#exec.changed, aborted(this.#left.signal)]);
      }
    } finally {
      this.#reading = false;
      this.#settle();
    }
  }

  writeStdin(bytes: Uint8Array): Promise<void> {
    return Promise.resolve().then(() => {
      if (!this.#stdin)
        throw new SandboxError("CONFLICT", `the command ${this.execId} was started without stdin`);
      this.#exec.writeInput(bytes);
    });
  }

  closeStdin(): Promise<void> {
    this.#exec.closeInput();
    return Promise.resolve();
  }

  detach(): void {
    this.#left.abort();
    this.#settled.resolve({
      execId: this.execId,
      reason: "unknown",
      durationMs: 0,
      stdoutBytes: 0,
      stderrBytes: 0,
      droppedBytes: 0,
      shellRestarted: false,
      outputOpen: false,
    });
  }

  async #follow(): Promise<void> {
    while (!this.#exec.extent(this.#until).complete && !this.#left.signal.aborted) {
      await Promise.race([this.#exec.changed, aborted(this.#left.signal)]);
    }
    if (!this.#reading) this.#settle();
  }

  #settle(): void {
    if (this.#exec.end !== undefined && this.#exec.extent(this.#until).complete)
      this.#settled.resolve(this.#exec.end);
  }
}
