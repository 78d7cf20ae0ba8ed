/** Delivers the DATA of one stream to its consumer at the consumer's pace. */
import { ProtocolError } from "@sandkasten/protocol";
import type { RunnerOperation } from "@sandkasten/protocol";
import type { Connection } from "./connection.ts";
import { Inbox } from "./inbox.ts";
import { outcomeError } from "./call.ts";
import { StreamSink } from "./stream-sink.ts";
import type { StreamOutcome } from "./stream-sink.ts";
import type { WireStream } from "./wire-stream.ts";

const NOTHING = new Uint8Array();

export interface ByteStreamExpectations {
  readonly op: RunnerOperation;
  /** Checks the EVENT that precedes the bytes; when absent, no EVENT may arrive. */
  readonly onEvent?: (message: Record<string, unknown>) => void;
  /** Checks the RESPONSE against what was received; throws a `ProtocolError` to refuse it. */
  readonly onResponse: (message: Record<string, unknown>, receivedBytes: number) => void;
  /** More bytes than this break the protocol. */
  readonly maxBytes?: number | undefined;
}

export class ByteStreamSink extends StreamSink {
  /** Resolves with the first sign of success (the EVENT, or else the first bytes or the end), or rejects. */
  readonly begun = Promise.withResolvers<void>();
  readonly #expectations: ByteStreamExpectations;
  readonly #inbox = new Inbox();
  #sawEvent = false;
  #receivedBytes = 0;

  constructor(expectations: ByteStreamExpectations) {
    super();
    this.#expectations = expectations;
    this.begun.promise.catch(() => undefined);
  }

  override event(message: Record<string, unknown>): void {
    const { onEvent } = this.#expectations;
    if (onEvent === undefined || this.#sawEvent) {
      super.event(message);
      return;
    }
    onEvent(message);
    this.#sawEvent = true;
    this.begun.resolve();
  }

  override data(bytes: Buffer): void {
    this.#requireEvent();
    this.#receivedBytes += bytes.byteLength;
    if (this.#receivedBytes > (this.#expectations.maxBytes ?? Number.POSITIVE_INFINITY)) {
      throw new ProtocolError(
        "unexpected_frame",
        `the runner sent more bytes than ${this.#expectations.op} requested`,
      );
    }
    this.begun.resolve();
    if (bytes.byteLength > 0) this.#inbox.push(bytes);
  }

  override end(): void {
    this.#requireEvent();
    this.#inbox.close();
  }

  override finish(outcome: StreamOutcome): void {
    if (outcome.kind === "response") {
      this.#requireEvent();
      this.#expectations.onResponse(outcome.message, this.#receivedBytes);
      this.begun.resolve();
      this.#inbox.close();
      return;
    }
    const error = outcomeError(this.#expectations.op, outcome);
    this.begun.reject(error);
    this.#inbox.close(error);
  }

  /**
   * The bytes. Credit for a payload is returned when the next one is needed. Readers that supply a
   * buffer avoid allocations; all others get copies.
   */
  readable(connection: Connection, stream: WireStream): ReadableStream<Uint8Array> {
    const inbox = this.#inbox;
    let payload: Uint8Array = NOTHING;
    let unconsumedBytes = 0;
    return new ReadableStream(
      {
        type: "bytes",
        async pull(controller) {
          if (payload.byteLength === 0) {
            stream.consumed(unconsumedBytes);
            unconsumedBytes = 0;
            const next = await inbox.next();
            if (next === undefined) {
              controller.close();
              controller.byobRequest?.respond(0);
              return;
            }
            payload = next;
            unconsumedBytes = next.byteLength;
          }
          const request = controller.byobRequest;
          const view = request?.view ?? null;
          if (request === null || view === null) {
            controller.enqueue(new Uint8Array(payload));
            payload = NOTHING;
            return;
          }
          const taken = payload.subarray(0, view.byteLength);
          new Uint8Array(view.buffer, view.byteOffset).set(taken);
          payload = payload.subarray(taken.byteLength);
          request.respond(taken.byteLength);
        },
        cancel() {
          connection.cancel(stream);
        },
      },
      // Nothing is fetched ahead of the reader: pending payloads stay in the inbox, within its
      // credit.
      { highWaterMark: 0 },
    );
  }

  #requireEvent(): void {
    if (this.#expectations.onEvent !== undefined && !this.#sawEvent) {
      throw new ProtocolError(
        "unexpected_frame",
        `the runner answered ${this.#expectations.op} without its first event`,
      );
    }
  }
}
