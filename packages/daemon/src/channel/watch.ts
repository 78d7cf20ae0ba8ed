/** Follows file changes in a sandbox. */
import {
  changeEventSchema,
  decodeJsonObject,
  ProtocolError,
  readyEventSchema,
} from "@sandkasten/protocol";
import type { FileChange, SandboxPath } from "../ports/channel.ts";
import { checkRequest, connectionFor, outcomeError } from "./call.ts";
import { checked } from "./checked-message.ts";
import { ConnectionFailure } from "./connection-failure.ts";
import type { ConnectionHolder } from "./connection-holder.ts";
import { StreamSink } from "./stream-sink.ts";
import type { StreamOutcome } from "./stream-sink.ts";
import { cancelled } from "./translate-errors.ts";
import { wirePath } from "./wire-path.ts";

/**
 * Changes that may wait for their reader, as the runner sent them. Events have no flow control, so
 * any further ones become a single `overflow`.
 *
 * SECURITY: paths come from the sandbox and can be long, so their bytes are limited as well as their
 * number (threat: oversized messages). Guarded by hostile-runner.test.ts.
 */
const MAX_WAITING_CHANGES = 4_096;
const MAX_WAITING_BYTES = 1_048_576;

/** Told in place of those that found no room. */
const OVERFLOW: FileChange = { kind: "overflow", path: "" };

class WatchSink extends StreamSink {
  readonly ready = Promise.withResolvers<void>();
  /** Called when a change arrives while none was waiting, and at the end. */
  wake: () => void = () => undefined;
  /** Decoded when they are taken, so that one connection's flood is read in no time. */
  readonly #waiting: Buffer[] = [];
  #waitingBytes = 0;
  ended = false;
  error: Error | undefined;
  #isReady = false;
  #isOverflowing = false;

  override receiveEvent(payload: Buffer): void {
    if (!this.#isReady) {
      checked(readyEventSchema, decodeJsonObject(payload), "ready event");
      this.#isReady = true;
      this.ready.resolve();
      return;
    }
    const isFull =
      this.#waiting.length >= MAX_WAITING_CHANGES || this.#waitingBytes >= MAX_WAITING_BYTES;
    if (isFull) this.#isOverflowing = true;
    // Once one is missing, the reader has to list the directory again anyway.
    if (!this.#isOverflowing) {
      this.#waiting.push(Buffer.from(payload));
      this.#waitingBytes += payload.byteLength;
    }
    this.wake();
  }

  /** The next waiting change. */
  take(): FileChange | undefined {
    const payload = this.#waiting.shift();
    if (payload !== undefined) {
      this.#waitingBytes -= payload.byteLength;
      return changeIn(payload);
    }
    if (!this.#isOverflowing) return undefined;
    this.#isOverflowing = false;
    return OVERFLOW;
  }

  override finish(outcome: StreamOutcome): void {
    if (outcome.kind === "response")
      throw new ProtocolError("unexpected_frame", "the runner ended a watch without a request");
    const error = outcomeError("watch", outcome);
    this.ready.reject(error);
    this.stop(error);
  }

  stop(error?: Error): void {
    this.ended = true;
    this.error ??= error;
    this.wake();
  }
}

function changeIn(payload: Buffer): FileChange {
  try {
    return checked(changeEventSchema, decodeJsonObject(payload), "change event");
  } catch (cause) {
    if (!(cause instanceof ProtocolError)) throw cause;
    const message = `the runner broke the protocol: ${cause.message}`;
    const failure = new ConnectionFailure("protocol", message, cause);
    throw outcomeError("watch", { kind: "lost", failure });
  }
}

/**
 * Resolves once the watch is in place. The iterable ends when the loop is left or the signal fires,
 * and throws if the sandbox is lost.
 */
export async function watchFiles(
  holder: ConnectionHolder,
  path: SandboxPath,
  options: { readonly recursive?: boolean },
  signal?: AbortSignal,
): Promise<AsyncIterable<FileChange>> {
  if (signal?.aborted === true) throw cancelled("watch", signal);
  const request = checkRequest({ op: "watch", path: wirePath(path), ...options });
  const connection = await connectionFor(holder, request.op);
  const sink = new WatchSink();
  const stream = connection.openStream(request, sink, { deadlineMs: holder.deadlines.answerMs });
  const leave = (): void => {
    signal?.removeEventListener("abort", leave);
    connection.cancel(stream);
    sink.ready.reject(cancelled("watch", signal));
    sink.stop();
  };
  signal?.addEventListener("abort", leave, { once: true });
  await sink.ready.promise;
  stream.deadlineMs = undefined;
  return { [Symbol.asyncIterator]: () => changesOf(sink, leave) };
}

async function* changesOf(sink: WatchSink, leave: () => void): AsyncGenerator<FileChange, void> {
  try {
    for (;;) {
      const change = sink.take();
      if (change !== undefined) {
        yield change;
      } else if (sink.ended) {
        if (sink.error !== undefined) throw sink.error;
        return;
      } else {
        await new Promise<void>((resolve) => {
          sink.wake = resolve;
        });
      }
    }
  } finally {
    leave();
  }
}
