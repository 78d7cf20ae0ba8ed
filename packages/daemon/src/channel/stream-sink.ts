/** Where the frames of one stream go. */
import { ProtocolError } from "@sandkasten/protocol";
import type { RunnerError } from "@sandkasten/protocol";
import type { ConnectionFailure } from "./connection-failure.ts";

export type StreamOutcome =
  | { readonly kind: "response"; readonly message: Record<string, unknown> }
  | { readonly kind: "error"; readonly error: RunnerError }
  /** The runner owed an answer and missed its deadline; the connection itself goes on. */
  | { readonly kind: "stalled" }
  | { readonly kind: "lost"; readonly failure: ConnectionFailure };

/**
 * Takes what a runner sends on one stream. Every method may throw a `ProtocolError`, which ends the
 * stream and comes back as a `lost` outcome. Frames that an operation has no use for are such
 * an error, so a sink overrides only what it expects.
 */
export abstract class StreamSink {
  /** Called once, last. When it throws it is called again with the loss that follows. */
  abstract finish(outcome: StreamOutcome): void;

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
    `the runner sent ${frame} on a stream that has none at this point`,
  );
}
