/** Follows file changes in a sandbox. */
import { changeEventSchema, ProtocolError, readyEventSchema } from "@sandkasten/protocol";
import type { FileChange, SandboxPath } from "../ports/channel.ts";
import { checkRequest, connectionFor, outcomeError } from "./call.ts";
import { checked } from "./checked-message.ts";
import type { ConnectionHolder } from "./connection-holder.ts";
import { StreamSink } from "./stream-sink.ts";
import type { StreamOutcome } from "./stream-sink.ts";
import { cancelled } from "./translate-errors.ts";
import { wirePath } from "./wire-path.ts";

/**
 * Changes that may wait for their reader. Events have no flow control, so any further ones become a
 * single `overflow`.
 *
 * SECURITY: paths come from the sandbox and can be long, so their bytes are limited as well as their
 * number (threat: oversized messages). Guarded by hostile-runner.test.ts.
 */
const MAX_WAITING_CHANGES = 4_096;
const MAX_WAITING_BYTES = 1_048_576;

class WatchSink extends StreamSink {
  readonly ready = Promise.withResolvers<void>();
  /** Called when a change arrives while none was waiting, and at the end. */
  wake: () => void = () => undefined;
  readonly #changes: FileChange[] = [];
  #waitingBytes = 0;
  ended = false;
  error: Error | undefined;
  #isReady = false;

  override event(message: Record<string, unknown>): void {
    if (!this.#isReady) {
      checked(readyEventSchema, message, "ready event");
      this.#isReady = true;
      this.ready.resolve();
      return;
    }
    const change = checked(changeEventSchema, message, "change event");
    const isFull =
      this.#changes.length >= MAX_WAITING_CHANGES || this.#waitingBytes >= MAX_WAITING_BYTES;
    if (!isFull) this.#add(change);
    else if (this.#changes.at(-1)?.kind !== "overflow") this.#add({ kind: "overflow", path: "" });
    this.wake();
  }

  /** The next waiting change. */
  take(): FileChange | undefined {
    const change = this.#changes.shift();
    if (change !== undefined) this.#waitingBytes -= Buffer.byteLength(change.path);
    return change;
  }

  #add(change: FileChange): void {
    this.#changes.push(change);
    this.#waitingBytes += Buffer.byteLength(change.path);
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
