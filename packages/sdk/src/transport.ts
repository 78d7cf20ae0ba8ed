/** Sends requests to the daemon: with the key, with a timeout, and with retries where they are safe. */
import { connectionFailed, errorFromResponse } from "./errors-from-wire.ts";
import type { FileSource } from "./file-types.ts";
import { isStream, toRequestBody } from "./request-body.ts";
import { canRetry, HELD_MS, pause, pauseMs, type RetryPolicy } from "./retry.ts";
import { SandboxError } from "./sandbox-error.ts";
import { addTraceHeaders } from "./trace-headers.ts";
import type { WebSocketConstructor } from "./web-socket.ts";
import type { ErrorCode } from "./wire-names.ts";

const repeatableMethods: ReadonlySet<string> = new Set(["GET", "PUT", "DELETE"]);

/** A query value; a list is sent as several parameters. */
type QueryValue = string | number | boolean | readonly string[] | undefined;

/** One request, with possible retries. */
export interface Call {
  readonly method: "GET" | "POST" | "PUT" | "DELETE";
  /** Starts with `/`; each segment is encoded. */
  readonly path: string;
  readonly query?: Readonly<Record<string, QueryValue>>;
  readonly json?: unknown;
  readonly body?: FileSource | FormData;
  readonly headers?: Readonly<Record<string, string>>;
  /** Lets the daemon recognize a repetition. */
  readonly idempotencyKey?: string;
  /** Whether repeating it is safe, if the method does not imply that. */
  readonly repeatable?: boolean;
  /** The error of a repetition whose previous attempt succeeded without a response: counts as success. */
  readonly doneWhenRepeated?: ErrorCode;
  /** The daemon responds when something has happened, not as soon as it can. */
  readonly waits?: boolean;
  /** The response may be large, and take accordingly long. */
  readonly large?: boolean;
  readonly signal?: AbortSignal | undefined;
}

export interface TransportOptions extends RetryPolicy {
  readonly baseUrl: URL;
  readonly apiKey: string | undefined;
  readonly fetch: typeof globalThis.fetch;
  /** For terminals; the global one when absent. */
  readonly webSocket: WebSocketConstructor | undefined;
  /** The response timeout of a call that does not wait for anything. */
  readonly timeoutMs: number;
}

/** A URL path from literal parts and encoded values: `` path`/v1/sessions/${id}` ``. */
export function path(parts: TemplateStringsArray, ...values: readonly string[]): string {
  return String.raw({ raw: parts }, ...values.map((value) => encodeURIComponent(value)));
}

function isRepeatable(call: Call): boolean {
  if (isStream(call.body)) return false;
  if (call.repeatable !== undefined) return call.repeatable;
  return call.idempotencyKey !== undefined || repeatableMethods.has(call.method);
}

export class Transport {
  readonly options: TransportOptions;

  constructor(options: TransportOptions) {
    this.options = options;
  }

  /** The JSON of the response. It is trusted to match the API. */
  json<Body>(call: Call): Promise<Body> {
    return this.send(call, async (response) => (await response.json()) as Body);
  }

  /** The response as soon as it begins; the caller must read or cancel its body. */
  open(call: Call): Promise<Response> {
    return this.send(call, (response) => Promise.resolve(response));
  }

  /** Sends it, with retries while they are safe and may help. `read` only reads the response. */
  async send<Answer>(call: Call, read: (response: Response) => Promise<Answer>): Promise<Answer> {
    let lostAnswer = false;
    for (let failures = 0; ; failures++) {
      const startedMs = performance.now();
      try {
        return await this.#attempt(call, read);
      } catch (error) {
        call.signal?.throwIfAborted();
        const failure = connectionFailed(this.#describe(call), error);
        if (lostAnswer && failure.code === call.doneWhenRepeated) {
          return read(Response.json({ ok: true }));
        }
        lostAnswer ||= failure.code === "CONNECTION_FAILED";
        if (call.waits === true && performance.now() - startedMs >= HELD_MS) failures = 0;
        if (failures >= this.options.maxRetries) throw failure;
        if (!isRepeatable(call) || !canRetry(failure)) throw failure;
        await pause(pauseMs(failures, this.options, failure.retryAfterMs), call.signal);
      }
    }
  }

  /** The URL of a call, as `http:` or, for a terminal, as `ws:`. */
  url(call: Pick<Call, "path" | "query">): URL {
    const url = new URL(this.options.baseUrl);
    url.pathname = url.pathname.replace(/\/+$/, "") + call.path;
    for (const [name, value] of Object.entries(call.query ?? {})) {
      if (value === undefined) continue;
      for (const one of Array.isArray(value) ? value : [value]) {
        url.searchParams.append(name, String(one));
      }
    }
    return url;
  }

  async #attempt<Answer>(
    call: Call,
    read: (response: Response) => Promise<Answer>,
  ): Promise<Answer> {
    call.signal?.throwIfAborted();
    const timeout = new AbortController();
    const { timeoutMs } = this.options;
    // The time for a body depends on its size, which is not the daemon's fault.
    const takesTime = call.waits === true || call.large === true || call.body !== undefined;
    const isBounded = !takesTime && timeoutMs > 0;
    const timer = isBounded ? setTimeout(() => timeout.abort(), timeoutMs) : undefined;
    const signal = call.signal ? AbortSignal.any([call.signal, timeout.signal]) : timeout.signal;
    try {
      const response = await this.options.fetch(this.url(call), await this.#init(call, signal));
      if (!response.ok) throw await errorFromResponse(response);
      return await read(response);
    } catch (error) {
      if (!timeout.signal.aborted || error instanceof SandboxError) throw error;
      const message = `${this.#describe(call)}: no response within ${timeoutMs} ms.`;
      throw new SandboxError("CONNECTION_FAILED", message, { cause: error });
    } finally {
      clearTimeout(timer);
    }
  }

  async #init(call: Call, signal: AbortSignal): Promise<RequestInit> {
    const headers = new Headers(call.headers);
    if (this.options.apiKey !== undefined) {
      headers.set("authorization", `Bearer ${this.options.apiKey}`);
    }
    if (call.idempotencyKey !== undefined) headers.set("idempotency-key", call.idempotencyKey);
    addTraceHeaders(headers);
    // SECURITY: a redirect could send files and commands to another host (threat: redirects to
    // other hosts). Guarded by "a redirect is refused" in transport.test.ts.
    const init: RequestInit = { method: call.method, headers, signal, redirect: "manual" };
    if (call.json !== undefined) {
      headers.set("content-type", "application/json");
      return { ...init, body: JSON.stringify(call.json) };
    }
    if (call.body === undefined) return init;
    // A form sets its own content type, which contains the boundary.
    if (!(call.body instanceof FormData)) headers.set("content-type", "application/octet-stream");
    return { ...init, ...(await toRequestBody(call.body)) };
  }

  #describe(call: Call): string {
    return `${call.method} ${this.url(call).href}`;
  }
}
