/** The parts of a form, each within a timeout. */
import type { IncomingMessage } from "node:http";
import { setImmediate } from "node:timers/promises";
import type { Multipart } from "@fastify/multipart";
import { SandboxError } from "@sandkasten/protocol";
import type { FastifyRequest } from "fastify";
import { ObservedDeadline } from "../../../observed-deadline.ts";
import { stalled } from "./json-body.ts";

const PARTS_PER_TURN = 16;
/** How long parsing may take once the whole body has arrived. */
const PARSING_MS = 1_000;

/**
 * The parser waits forever for a part whose head never ends, so the body is watched here: if it
 * stalls, or has ended without a further part, the form is refused.
 */
export async function* partsOf(
  request: FastifyRequest,
  stallTimeoutMs: number,
): AsyncGenerator<Multipart> {
  const parts = request.parts();
  for (let taken = 1; ; taken += 1) {
    using watch = new BodyWatch(request.raw, stallTimeoutMs);
    const next = await Promise.race([parts.next(), watch.failed]);
    if (next.done === true) return;
    watch.stop();
    yield next.value;
    // Parts that have already arrived would otherwise be processed without a pause for other
    // requests.
    if (taken % PARTS_PER_TURN === 0) await setImmediate();
  }
}

class BodyWatch implements Disposable {
  readonly #raw: IncomingMessage;
  readonly #stallTimeoutMs: number;
  readonly #failure = Promise.withResolvers<never>();
  #deadline: ObservedDeadline;
  #bytesRead: number;

  constructor(raw: IncomingMessage, stallTimeoutMs: number) {
    this.#raw = raw;
    this.#stallTimeoutMs = stallTimeoutMs;
    this.#bytesRead = raw.socket.bytesRead;
    this.#deadline = this.#watch();
    raw.once("end", this.#onEnd);
    // It may fail when there is no waiter left.
    this.#failure.promise.catch(() => undefined);
  }

  get failed(): Promise<never> {
    return this.#failure.promise;
  }

  stop(): void {
    this.#deadline.stop();
    this.#raw.off("end", this.#onEnd);
  }

  [Symbol.dispose](): void {
    this.stop();
  }

  readonly #onEnd = (): void => {
    this.#deadline.stop();
    this.#deadline = this.#watch();
  };

  #watch(): ObservedDeadline {
    if (this.#raw.readableEnded)
      return new ObservedDeadline(PARSING_MS, () => this.#failure.reject(incompleteForm()));
    return new ObservedDeadline(this.#stallTimeoutMs, () => {
      if (this.#raw.socket.bytesRead === this.#bytesRead)
        this.#failure.reject(stalled(this.#stallTimeoutMs));
      this.#bytesRead = this.#raw.socket.bytesRead;
      this.#deadline = this.#watch();
    });
  }
}

export function incompleteForm(cause?: unknown): SandboxError {
  return new SandboxError("INVALID_REQUEST", "the form in the body is incomplete", { cause });
}
