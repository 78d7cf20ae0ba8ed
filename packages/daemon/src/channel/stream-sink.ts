/** Receives the frames of one stream. */
import { decodeJsonObject, ProtocolError } from "@sandkasten/protocol";
import type { RunnerError } from "@sandkasten/protocol";
import type { ConnectionFailure } from "./connection-failure.ts";

export type StreamOutcome =
  | { readonly kind: "response"; readonly message: Record<string, unknown> }
  | { readonly kind: "error"; readonly error: RunnerError }
  /** The runner missed the deadline for an answer; the connection stays open. */
  | { readonly kind: "stalled" }
  | { readonly kind: "lost"; readonly failure: ConnectionFailure };

/**
 * Receives what a runner sends on one stream. Every method may throw a `ProtocolError`, which ends
 * the stream and is reported as a `lost` outcome. Frames that an operation does not expect are such
 * an error, so a sink overrides only the methods it needs.
 */
export abstract class StreamSink {
  /** Called once, last. If it throws, it is called again with the resulting loss. */
  abstract finish(outcome: StreamOutcome): void;

  /** Decodes an event, whose payload is in reused memory. */
  receiveEvent(payload: Buffer): void {
    this.event(decodeJsonObject(payload));
  }

  event(_message: Record<string, unknown>): void {
    throw unexpected("EVENT");
  }

  output(_payload: Buffer): void {
    throw unexpected("OUTPUT");
  }

  data(_bytes: Buffer): void {
    throw unexpected("DATA");
  }

  /** The runner sends no more DATA. */
  end(): void {
    throw unexpected("END");
  }
}

function unexpected(frame: string): ProtocolError {
  return new ProtocolError(
    "unexpected_frame",
    `the runner sent an unexpected ${frame} frame on a stream`,
  );
}
