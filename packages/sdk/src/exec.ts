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

/** What one request waits for: short enough that nothing on the way takes it for dead. */
const WAIT_MS = 60_000;

interface ReadOutputOptionFields extends CallOptions {
  /** Where to begin, in bytes; the `nextCursor` of the page before. */
  readonly cursor?: number | undefined;
  readonly maxBytes?: number | undefined;
  /** How long to wait for output if there is none yet. */
  readonly waitMs?: number | undefined;
  /** Only this stream. Cursors are offsets in the output of both all the same. */
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
  /** `done` ends with the command; `closed` when processes that it left in the background have ended, too. */
  readonly until?: "done" | "closed" | undefined;
}

interface WaitOptionFields extends CallOptions {
  /** Returns after this time at the latest; check `status`. Waits for the end by default. */
  readonly timeoutMs?: number | undefined;
  /** Returns as soon as the output matches, instead of at the end; check `matched`. */
  readonly until?: OutputCondition | undefined;
  /** How much output the result holds. */
  readonly outputBudgetBytes?: number | undefined;
  /** Adds `rawOutput` to the result. */
  readonly raw?: boolean | undefined;
}

/** How to wait for a command. */
export type WaitOptions = WithSnakeNames<WaitOptionFields>;

/** To whom a signal goes. */
export interface SignalOptions extends CallOptions {
  /** To all that the command started. */
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

  /** What is known of it now. */
  async info(options: CallOptions = {}): Promise<ExecInfo> {
    return toExecInfo(await this.#get<ExecInfoBody>("", {}, options.signal));
  }

  /** A page of its output, also after its end and after the sandbox's. */
  async read(options: ReadOutputOptions = {}): Promise<OutputPage> {
    const { cursor, maxBytes, waitMs, stream, signal } = camelOptions(options);
    const query = { cursor, max_bytes: maxBytes, wait_ms: waitMs, raw: true, stream };
    const waits = waitMs !== undefined;
    const page = await this.#get<OutputPageBody>("/output", query, signal, waits);
    return toOutputPage(page, stream !== undefined);
  }

  /** Its output as it comes, each byte once, until its end. Broken connections are mended. */
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

  /** Waits for its end. A time that was up is part of the result here, and no error. */
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
        // It only looks.
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
   * lives on. Answers at once, with false when it had ended already; `wait` tells its end.
   */
  async cancel(options: CallOptions = {}): Promise<boolean> {
    const body = await this.#transport.json<CancelledBody>({
      ...this.#post("/cancel", {}),
      // What is cancelled already stays so.
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

  /** Writes to its input, which `stdinOpen` kept open. Resolves when the command's side took it. */
  async writeStdin(data: string | Uint8Array, options: CallOptions = {}): Promise<void> {
    const content =
      typeof data === "string" ? { text: data } : { content_base64: encodeBase64(data) };
    await this.#transport.json({
      ...this.#post("/stdin", content),
      waits: true,
      signal: options.signal,
    });
  }

  /** Ends its input. */
  async closeStdin(options: CallOptions = {}): Promise<void> {
    await this.#transport.json({
      ...this.#post("/stdin", { close: true }),
      signal: options.signal,
    });
  }

  /** Tells its terminal a new size. */
  async resize(size: TerminalSize, options: CallOptions = {}): Promise<void> {
    await this.#transport.json({
      ...this.#post("/resize", { rows: size.rows, cols: size.cols }),
      // The same size twice is the same size.
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
