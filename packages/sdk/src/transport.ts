/** Sends requests to the daemon: with the key, within a time, and again where that is safe. */
import { connectionFailed, errorFromResponse } from "./errors-from-wire.ts";
import type { FileSource } from "./file-types.ts";
import { isStream, toRequestBody } from "./request-body.ts";
import { canRetry, HELD_MS, pause, pauseMs, type RetryPolicy } from "./retry.ts";
import { SandboxError } from "./sandbox-error.ts";
import { addTraceHeaders } from "./trace-headers.ts";
import type { WebSocketConstructor } from "./web-socket.ts";
import type { ErrorCode } from "./wire-names.ts";

const repeatableMethods: ReadonlySet<string> = new Set(["GET", "PUT", "DELETE"]);

/** A value of a query; a list is sent as several. */
type QueryValue = string | number | boolean | readonly string[] | undefined;

/** One request, which may take several tries. */
export interface Call {
  readonly method: "GET" | "POST" | "PUT" | "DELETE";
  /** From `/` on, each segment encoded. */
  readonly path: string;
  readonly query?: Readonly<Record<string, QueryValue>>;
  readonly json?: unknown;
  readonly body?: FileSource | FormData;
  readonly headers?: Readonly<Record<string, string>>;
  /** Lets the daemon know a repetition when it sees one. */
  readonly idempotencyKey?: string;
  /** Whether doing it twice is the same as doing it once, where the method does not say. */
  readonly repeatable?: boolean;
  /** What a repetition answers when the try before it was done but its answer was lost: a success. */
  readonly doneWhenRepeated?: ErrorCode;
  /** The daemon answers when something has happened, not as soon as it can. */
  readonly waits?: boolean;
  /** The answer is as large as what is asked for, and may take accordingly. */
  readonly large?: boolean;
  readonly signal?: AbortSignal | undefined;
}

export interface TransportOptions extends RetryPolicy {
  readonly baseUrl: URL;
  readonly apiKey: string | undefined;
  readonly fetch: typeof globalThis.fetch;
  /** For terminals; the global one when absent. */
  readonly webSocket: WebSocketConstructor | undefined;
  /** How long the daemon may take to answer a call that does not wait for anything. */
  readonly timeoutMs: number;
}

/** A URL's path of literal parts and encoded values: `` path`/v1/sessions/${id}` ``. */
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

  /** The JSON of the answer. It is believed to be what the API says it is. */
  json<Body>(call: Call): Promise<Body> {
    return this.send(call, async (response) => (await response.json()) as Body);
  }

  /** The answer as soon as it begins; its body is the caller's to read or cancel. */
  open(call: Call): Promise<Response> {
    return this.send(call, (response) => Promise.resolve(response));
  }

  /** Sends it, and again while that is safe and may help. `read` takes what it needs of the answer and does nothing else. */
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

  /** Where a call goes, as `http:` or, for a terminal, as `ws:`. */
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
    // How long a body takes depends on its size, which is not the daemon's fault.
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
      const message = `${this.#describe(call)}: no answer within ${timeoutMs} ms.`;
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
    // SECURITY: a redirect could send files and commands to another host. (threat: redirects to other
    // hosts). Guarded by "a redirect is refused" in transport.test.ts.
    const init: RequestInit = { method: call.method, headers, signal, redirect: "manual" };
    if (call.json !== undefined) {
      headers.set("content-type", "application/json");
      return { ...init, body: JSON.stringify(call.json) };
    }
    if (call.body === undefined) return init;
    // A form brings its own type, with the boundary in it.
    if (!(call.body instanceof FormData)) headers.set("content-type", "application/octet-stream");
    return { ...init, ...(await toRequestBody(call.body)) };
  }

  #describe(call: Call): string {
    return `${call.method} ${this.url(call).href}`;
  }
}
