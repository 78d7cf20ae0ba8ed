/** Server-sent events of the daemon: parsed JSON, with failures as errors. */
import type { ExecInfoBody } from "@sandkasten/protocol";
import { connectionFailed, errorFromBody } from "./errors-from-wire.ts";
import { canRetry, HELD_MS, pause, pauseMs, type RetryPolicy } from "./retry.ts";
import type { Reading } from "./response-body.ts";
import { SandboxError } from "./sandbox-error.ts";
import { readEvents } from "./sse-parser.ts";

/** A parsed event. Its data is trusted to match the API. */
export interface JsonEvent {
  readonly type: string;
  readonly data: unknown;
  /** The last id that the daemon sent, with this event or before it. */
  readonly id?: string;
}

/** The data of an `error` event, which ends a stream. */
interface ErrorEventBody {
  /** A sentence. */
  readonly error?: string;
  readonly error_code?: string;
  /** Present if a command failed rather than the stream: the command's state. */
  readonly exec?: ExecInfoBody;
}

/**
 * The events of a response. An `error` event is thrown, except if it reports how a command ended,
 * which counts as `done`.
 */
export async function* readJsonEvents(
  response: Response,
  { what, signal }: Reading,
): AsyncGenerator<JsonEvent, void, undefined> {
  if (response.body === null) return;
  try {
    for await (const { type, data, id } of readEvents(response.body)) {
      const body: unknown = JSON.parse(data);
      if (type !== "error") yield { type, data: body, id };
      else yield endOfCommand(body as ErrorEventBody);
    }
  } catch (error) {
    signal?.throwIfAborted();
    throw connectionFailed(what, error);
  }
}

function endOfCommand({ error, error_code = "INTERNAL_ERROR", exec }: ErrorEventBody): JsonEvent {
  if (exec !== undefined) return { type: "done", data: exec };
  throw errorFromBody({ error_code, message: error });
}

/** A source of events over any number of connections. */
export interface ResumableSource extends Reading {
  /** Connects, or reconnects where the last connection broke. */
  readonly open: () => Promise<Response>;
  readonly policy: RetryPolicy;
}

/**
 * Events over consecutive connections. It ends only when the loop is left: a connection that ends
 * counts as broken. `reconnected` separates the events of two connections.
 */
export async function* resumeEvents(
  source: ResumableSource,
): AsyncGenerator<JsonEvent, never, undefined> {
  let failures = 0;
  for (let connections = 0; ; connections++) {
    const response = await source.open();
    const connectedMs = performance.now();
    if (connections > 0) yield { type: "reconnected", data: undefined };
    let failure = new SandboxError("CONNECTION_FAILED", `${source.what}: the connection ended.`);
    try {
      for await (const event of readJsonEvents(response, source)) {
        failures = 0;
        yield event;
      }
    } catch (error) {
      if (!(error instanceof SandboxError)) throw error;
      failure = error;
    }
    if (performance.now() - connectedMs >= HELD_MS) failures = 0;
    if (failures >= source.policy.maxRetries || !canRetry(failure)) throw failure;
    await pause(pauseMs(failures, source.policy, failure.retryAfterMs), source.signal);
    failures++;
  }
}
