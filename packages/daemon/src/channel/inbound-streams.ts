/** The streams of one connection that the runner opened. */
import {
  decodeCredit,
  decodeJsonObject,
  encodeJsonFrame,
  FIRST_RUNNER_STREAM_ID,
  FrameType,
  MAX_RUNNER_STREAMS,
  ProtocolError,
  RUNNER_STREAM_CREDIT_BYTES,
  sandboxRequestSchema,
} from "@sandkasten/protocol";
import type { Frame, SandboxRefusalCode } from "@sandkasten/protocol";
import type { NetworkHandler } from "../ports/channel.ts";
import { checked } from "./checked-message.ts";
import type { ConnectionFailure } from "./connection-failure.ts";
import { InboundConnection } from "./inbound-connection.ts";
import { REQUEST_RATE, RequestRate } from "./request-rate.ts";
import type { WireStream } from "./wire-stream.ts";

/** The part of the connection that these streams need. */
export interface InboundHost {
  write(...parts: Uint8Array[]): void;
  writeThen(done: (taken: boolean) => void, ...parts: Uint8Array[]): void;
  /** Whether written memory may be changed once the write completes. */
  readonly letsGoOfMemory: boolean;
  creditOwed(stream: WireStream): void;
  /** Records a violation on one stream; throws it if there were too many. */
  noteBreach(cause: ProtocolError): void;
  /** Pauses reading from the runner. */
  pauseReading(ms: number): void;
}

/**
 * SECURITY: sandbox code decides when these streams open and what they carry, and a compromised
 * runner decides what their frames are. Their number, their windows and the request rate are
 * therefore bounded, and a violation on one fails only that one (threats: oversized messages and a
 * stalling runner). Guarded by inbound-streams.test.ts.
 */
export class InboundStreams {
  readonly #host: InboundHost;
  readonly #streams = new Map<number, InboundConnection>();
  readonly #rate = new RequestRate(REQUEST_RATE);
  #lastId = FIRST_RUNNER_STREAM_ID - 1;
  #handler: NetworkHandler | undefined;

  constructor(host: InboundHost) {
    this.#host = host;
  }

  /** Sets the handler for requests; undefined refuses them. */
  serve(handler: NetworkHandler | undefined): void {
    this.#handler = handler;
    if (handler === undefined) this.#endAll(new Error("the network of the sandbox was closed"));
  }

  /** Throws a `ProtocolError` if nothing on this connection can be trusted. */
  receive(frame: Frame): void {
    if (frame.type === FrameType.request) {
      this.#receiveRequest(frame);
      return;
    }
    const connection = this.#streams.get(frame.stream);
    if (connection === undefined) {
      // Frames that were in flight when the stream ended are meaningless.
      if (frame.stream <= this.#lastId) return;
      throw new ProtocolError(
        "unknown_stream",
        `a frame of type ${String(frame.type)} arrived for stream ${String(frame.stream)}, which was never opened`,
      );
    }
    try {
      deliver(connection, frame);
    } catch (cause) {
      if (!(cause instanceof ProtocolError)) throw cause;
      connection.fail("invalid", cause.message);
      this.#host.noteBreach(cause);
    }
  }

  lose(failure: ConnectionFailure): void {
    this.#endAll(failure);
  }

  #endAll(error: Error): void {
    const connections = [...this.#streams.values()];
    this.#streams.clear();
    for (const connection of connections) connection.destroy(error);
  }

  #receiveRequest(frame: Frame): void {
    const { stream } = frame;
    if (stream <= this.#lastId)
      throw new ProtocolError("unknown_stream", `the runner opened stream ${String(stream)} again`);
    this.#lastId = stream;
    const pauseMs = this.#rate.take(performance.now());
    if (pauseMs > 0) this.#host.pauseReading(pauseMs);
    const refuse = (code: SandboxRefusalCode, message: string): void =>
      this.#host.write(encodeJsonFrame(FrameType.error, stream, { code, message }));
    const handler = this.#handler;
    if (handler === undefined) {
      refuse("denied", "the sandbox has no network");
      return;
    }
    let request;
    try {
      request = checked(sandboxRequestSchema, decodeJsonObject(frame.payload), "request");
    } catch (cause) {
      if (!(cause instanceof ProtocolError)) throw cause;
      refuse("invalid", cause.message);
      this.#host.noteBreach(cause);
      return;
    }
    if (request.op === "resolve") {
      const ports = handler.resolve(request.name);
      if (ports === undefined) refuse("denied", "the network policy does not allow this name");
      else this.#host.write(encodeJsonFrame(FrameType.response, stream, { ports }));
      return;
    }
    if (this.#streams.size >= MAX_RUNNER_STREAMS) {
      refuse("too_many", `the sandbox already has ${String(MAX_RUNNER_STREAMS)} open connections`);
      return;
    }
    const { host, port, via } = request;
    const connection = new InboundConnection(stream, RUNNER_STREAM_CREDIT_BYTES, {
      write: (...parts) => this.#host.write(...parts),
      creditOwed: (wire) => this.#host.creditOwed(wire),
      writeThen: (done, ...parts) => this.#host.writeThen(done, ...parts),
      letsGoOfMemory: this.#host.letsGoOfMemory,
      forget: () => this.#streams.delete(stream),
    });
    this.#streams.set(stream, connection);
    handler.connect({ host, port, via }, connection);
  }
}

function deliver(connection: InboundConnection, frame: Frame): void {
  switch (frame.type) {
    case FrameType.data:
      connection.wire.receiveData(frame.payload);
      return;
    case FrameType.credit:
      connection.wire.receiveCredit(decodeCredit(frame.payload));
      return;
    case FrameType.end:
      connection.wire.receiveEnd();
      return;
    case FrameType.cancel:
      connection.cancelled();
      return;
    default:
      throw new ProtocolError(
        "unexpected_frame",
        `a runner must not send frames of type ${String(frame.type)} on a stream that it opened`,
      );
  }
}
