/** A command of a session, by its id. */
import type { ExecInfoBody, ExecResultBody, OutputPageBody } from "@sandkasten/protocol";
import { encodeBase64 } from "./base64.ts";
import type { CallOptions } from "./call-options.ts";
import {
  type ExecInfo,
  type ExecResult,
  type OutputCondition,
  type OutputChunk,
  type OutputPage,
  type TerminalSize,
  toExecInfo,
  toExecResult,
} from "./exec-types.ts";
import { followOutput, toOutputPage } from "./follow-output.ts";
import { camelOptions, type WithSnakeNames } from "./snake-names.ts";
import { type Call, path, type Transport } from "./transport.ts";
import type { CancelledBody, SignalledBody } from "./wire-bodies.ts";
import type { OutputStream } from "./wire-names.ts";

/** How long one request waits: short enough that proxies do not close it. */
const WAIT_MS = 60_000;

interface ReadOutputOptionFields extends CallOptions {
  /** Where to begin, in bytes; the `nextCursor` of the previous page. */
  readonly cursor?: number | undefined;
  readonly maxBytes?: number | undefined;
  /** How long to wait for output if there is none yet. */
  readonly waitMs?: number | undefined;
  /** Only this stream. Cursors are still offsets in the merged output. */
  readonly stream?: OutputStream | undefined;
}

/** Which part of the output to read. */
export type ReadOutputOptions = WithSnakeNames<ReadOutputOptionFields>;

/** What to follow. */
export interface FollowExecOptions extends CallOptions {
  /** Where to begin, in bytes. 0 by default. */
  readonly cursor?: number | undefined;
  /** Only this stream. */
  readonly stream?: OutputStream | undefined;
  /** `done` ends with the command; `closed` when its background processes have ended, too. */
  readonly until?: "done" | "closed" | undefined;
}

interface WaitOptionFields extends CallOptions {
  /** Returns after this time at the latest; check `status`. Waits for the end by default. */
  readonly timeoutMs?: number | undefined;
  /** Returns as soon as the output matches, instead of at the end; check `matched`. */
  readonly until?: OutputCondition | undefined;
  /** How much output the result contains. */
  readonly outputBudgetBytes?: number | undefined;
  /** Adds `rawOutput` to the result. */
  readonly raw?: boolean | undefined;
}

/** How to wait for a command. */
export type WaitOptions = WithSnakeNames<WaitOptionFields>;

/** Which processes get a signal. */
export interface SignalOptions extends CallOptions {
  /** Everything that the command started. */
  readonly tree?: boolean | undefined;
}

/** A running or finished command. It continues without a client. */
export class Exec {
  readonly id: string;
  readonly sessionId: string;
  readonly #transport: Transport;
  readonly #base: string;

  /** @internal */
  constructor(transport: Transport, sessionId: string, id: string) {
    this.#transport = transport;
    this.sessionId = sessionId;
    this.id = id;
    this.#base = path`/v1/sessions/${sessionId}/execs/${id}`;
  }

  /** The same as `sessionId`. */
  get session_id(): string {
    return this.sessionId;
  }

  /** The command's current state. */
  async info(options: CallOptions = {}): Promise<ExecInfo> {
    return toExecInfo(await this.#get<ExecInfoBody>("", {}, options.signal));
  }

  /** A page of its output, also after the command or the sandbox has ended. */
  async read(options: ReadOutputOptions = {}): Promise<OutputPage> {
    const { cursor, maxBytes, waitMs, stream, signal } = camelOptions(options);
    const query = { cursor, max_bytes: maxBytes, wait_ms: waitMs, raw: true, stream };
    const waits = waitMs !== undefined;
    const page = await this.#get<OutputPageBody>("/output", query, signal, waits);
    return toOutputPage(page, stream !== undefined);
  }

  /** Its output as it arrives, each byte once, until its end. Reconnects if a connection breaks. */
  async *follow(options: FollowExecOptions = {}): AsyncGenerator<OutputChunk, ExecInfo, undefined> {
    return yield* followOutput({
      open: (cursor) => this.openStream({ ...options, cursor }),
      transport: this.#transport,
      cursor: options.cursor ?? 0,
      signal: options.signal,
      isFiltered: options.stream !== undefined,
      what: `following the command ${this.id}`,
    });
  }

  /** Waits for its end. A timeout is part of the result, not an error. */
  async wait(options: WaitOptions = {}): Promise<ExecResult> {
    const { timeoutMs = Infinity, until, outputBudgetBytes, raw, signal } = camelOptions(options);
    const endMs = performance.now() + timeoutMs;
    for (;;) {
      const leftMs = Math.max(0, Math.ceil(endMs - performance.now()));
      const body = await this.#transport.json<ExecResultBody>({
        ...this.#post("/wait", {
          timeout_ms: Math.min(leftMs, WAIT_MS),
          until,
          output_budget_bytes: outputBudgetBytes,
          raw_output: raw,
        }),
        // Read-only, so it can be repeated.
        repeatable: true,
        waits: true,
        signal,
      });
      const isOver = body.status === "done" && (until === undefined || !body.background);
      if (isOver || body.matched === true || performance.now() >= endMs) return toExecResult(body);
    }
  }

  /**
   * Ends it as a timeout does: an interrupt, then a kill of everything that it started. Its shell
   * continues. Returns at once, with false if it had already ended; `wait` returns its end.
   */
  async cancel(options: CallOptions = {}): Promise<boolean> {
    const body = await this.#transport.json<CancelledBody>({
      ...this.#post("/cancel", {}),
      // Cancelling twice has no further effect.
      repeatable: true,
      signal: options.signal,
    });
    return body.cancelled;
  }

  /** Sends a signal by name or number, `TERM` by default. Returns how many processes received it. */
  async signal(signal?: string | number, options: SignalOptions = {}): Promise<number> {
    const body = await this.#transport.json<SignalledBody>({
      ...this.#post("/signal", { signal, tree: options.tree }),
      signal: options.signal,
    });
    return body.delivered;
  }

  /** Writes to its stdin, which `stdinOpen` kept open. Resolves when the sandbox has accepted the data. */
  async writeStdin(data: string | Uint8Array, options: CallOptions = {}): Promise<void> {
    const content =
      typeof data === "string" ? { text: data } : { content_base64: encodeBase64(data) };
    await this.#transport.json({
      ...this.#post("/stdin", content),
      waits: true,
      signal: options.signal,
    });
  }

  /** Closes its stdin. */
  async closeStdin(options: CallOptions = {}): Promise<void> {
    await this.#transport.json({
      ...this.#post("/stdin", { close: true }),
      signal: options.signal,
    });
  }

  /** Resizes its terminal. */
  async resize(size: TerminalSize, options: CallOptions = {}): Promise<void> {
    await this.#transport.json({
      ...this.#post("/resize", { rows: size.rows, cols: size.cols }),
      // Resizing twice has no further effect.
      repeatable: true,
      signal: options.signal,
    });
  }

  /** @internal */
  openStream({ cursor, stream, until, signal }: FollowExecOptions): Promise<Response> {
    return this.#transport.open({
      method: "GET",
      path: `${this.#base}/stream`,
      query: { cursor, raw: true, stream, until },
      headers: { accept: "text/event-stream" },
      signal,
    });
  }

  #get<Body>(
    suffix: string,
    query: NonNullable<Call["query"]>,
    signal: AbortSignal | undefined,
    waits = false,
  ): Promise<Body> {
    return this.#transport.json<Body>({
      method: "GET",
      path: `${this.#base}${suffix}`,
      query,
      waits,
      signal,
    });
  }

  #post(suffix: string, json: unknown): Call {
    return { method: "POST", path: `${this.#base}${suffix}`, json };
  }
}
