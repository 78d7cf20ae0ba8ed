/** One connection to a runner: the handshake, and the streams that share the connection. */
import { Socket } from "node:net";
import type { Duplex } from "node:stream";
import {
  decodeCredit,
  decodeJsonObject,
  encodeFrame,
  encodeJsonFrame,
  FIRST_RUNNER_STREAM_ID,
  FrameDecoder,
  FrameType,
  PROTOCOL_VERSION,
  ProtocolError,
  runnerErrorSchema,
  runnerHelloSchema,
  SandboxError,
} from "@sandkasten/protocol";
import type { Frame, RunnerHello, RunnerRequest } from "@sandkasten/protocol";
import { ObservedDeadline } from "../observed-deadline.ts";
import type { ConnectionOptions } from "./channel-options.ts";
import { ConnectionFailure } from "./connection-failure.ts";
import { checked } from "./checked-message.ts";
import { InboundStreams } from "./inbound-streams.ts";
import { EVENT_RATE, RequestRate } from "./request-rate.ts";
import { StallWatch } from "./stall-watch.ts";
import type { StreamOutcome, StreamSink } from "./stream-sink.ts";
import { WireStream } from "./wire-stream.ts";
import type { StreamHost } from "./wire-stream.ts";

/** Concurrent streams; a runner closes a connection that has more than 1024. */
const MAX_STREAMS = 1_000;
/** Cancelled streams whose end the runner has not confirmed; above this limit it counts as unresponsive. */
const MAX_UNCONFIRMED_CANCELS = 500;
/** Single-stream protocol violations that a connection survives; a runner with more is hostile or broken. */
const MAX_BREACHES = 16;
/** How long small amounts of credit are held back to share one write. */
const CREDIT_DELAY_MS = 25;

export interface OpenStreamOptions {
  readonly deadlineMs?: number | undefined;
  /** Sent right after the request, in the same write. */
  readonly body?: Uint8Array | undefined;
  /** Whether END follows the body. */
  readonly end?: boolean;
  /** Exempt from the stream limit, because it keeps other streams alive. */
  readonly essential?: boolean;
}

export class Connection implements StreamHost {
  readonly #transport: Duplex;
  readonly #decoder = new FrameDecoder();
  readonly #streams = new Map<number, WireStream>();
  /** The streams that the runner opens. */
  readonly inbound: InboundStreams;
  readonly #stallWatch: StallWatch;
  readonly #greeted = Promise.withResolvers<RunnerHello>();
  #hello: RunnerHello | undefined;
  #failure: ConnectionFailure | undefined;
  #nextStreamId = 1;
  #unconfirmedCancels = 0;
  #breaches = 0;
  readonly #eventRate = new RequestRate(EVENT_RATE);
  /** Ended streams whose output the runner still holds for us. */
  readonly #holdingOutput = new Set<WireStream>();
  readonly #owingCredit = new Set<WireStream>();
  #creditTimer: NodeJS.Timeout | undefined;
  #readTimer: NodeJS.Timeout | undefined;
  #readAgainAtMs = 0;
  readonly #onFrame = (frame: Frame): void => this.#receive(frame);

  private constructor(transport: Duplex, { deadlines, silenceExpected, fence }: ConnectionOptions) {
    this.#transport = transport;
    this.inbound = new InboundStreams({
      write: (...parts) => this.write(...parts),
      creditOwed: (stream) => this.creditOwed(stream),
      noteBreach: (cause) => this.#noteBreach(cause),
      writeThen: (done, ...parts) => this.writeThen(done, ...parts),
      pauseReading: (ms) => this.#pauseReading(ms),
      // SECURITY: a socket's memory belongs to the kernel once a write completes. Streams of
      // libraries may still hold it (threat: reaching another tenant).
      letsGoOfMemory: transport instanceof Socket,
    });
    this.#stallWatch = new StallWatch(this, this.#streams, deadlines, silenceExpected);
    this.#greeted.promise.catch(() => undefined);
    // Everything kept from a chunk is copied before this returns, so a transport may reuse its
    // memory.
    transport.on("data", (chunk: Uint8Array) => this.#receiveChunk(chunk));
    // A half-closed peer can never answer, so its end is the end of the connection.
    transport.on("end", () =>
      this.fail(new ConnectionFailure("lost", "the runner closed the connection")),
    );
    transport.on("close", () =>
      this.fail(new ConnectionFailure("lost", "the connection to the runner was cut")),
    );
    transport.on("error", (cause) =>
      this.fail(new ConnectionFailure("lost", "the connection to the runner broke", cause)),
    );
    transport.resume();
    const hello = { protocol: PROTOCOL_VERSION, ...(fence !== undefined && { fence }) };
    transport.write(encodeJsonFrame(FrameType.hello, 0, hello));
  }

  /** Performs the handshake on a new transport. Rejects with a `ConnectionFailure`. */
  static async open(transport: Duplex, options: ConnectionOptions): Promise<Connection> {
    const { deadlines, silenceExpected } = options;
    const connection = new Connection(transport, options);
    const wait = (): ObservedDeadline =>
      new ObservedDeadline(deadlines.helloMs, () => {
        if (silenceExpected()) deadline = wait();
        else
          connection.fail(
            new ConnectionFailure(
              "unresponsive",
              `the runner sent no HELLO within ${String(deadlines.helloMs)} ms`,
            ),
          );
      });
    let deadline = wait();
    try {
      await connection.#greeted.promise;
      return connection;
    } finally {
      deadline.stop();
    }
  }

  get hello(): RunnerHello {
    if (this.#hello === undefined) throw new Error("the connection was used before its handshake");
    return this.#hello;
  }

  get failure(): ConnectionFailure | undefined {
    return this.#failure;
  }

  /** Whether new streams may be opened: not after a failure, nor when all stream ids are used. */
  get usable(): boolean {
    return this.#failure === undefined && this.#nextStreamId < FIRST_RUNNER_STREAM_ID;
  }

  /** Opens a stream with a request. If the connection has failed, the sink is notified at once. */
  openStream(
    request: RunnerRequest,
    sink: StreamSink,
    options: OpenStreamOptions = {},
  ): WireStream {
    if (
      this.#streams.size + this.#holdingOutput.size >= MAX_STREAMS &&
      options.essential !== true
    ) {
      throw new SandboxError(
        "QUOTA_EXCEEDED",
        `the sandbox already has ${String(MAX_STREAMS)} open requests; wait until some of them end`,
      );
    }
    const frame = encodeRequest(this.#nextStreamId, request);
    const stream = new WireStream(this.#nextStreamId++, sink, this, options.deadlineMs);
    if (this.#failure !== undefined) {
      stream.finish({ kind: "lost", failure: this.#failure });
      return stream;
    }
    this.#streams.set(stream.id, stream);
    this.#stallWatch.start();
    this.#transport.cork();
    this.#transport.write(frame);
    this.#giveCredit();
    if (options.body !== undefined) void stream.send(options.body);
    if (options.end === true) stream.sendEnd();
    this.#transport.uncork();
    return stream;
  }

  /**
   * Cancels one stream: the runner is notified, and anything it still sends is dropped. Also
   * releases the output of an ended stream.
   */
  cancel(stream: WireStream, outcome?: StreamOutcome): void {
    if (this.#holdingOutput.delete(stream)) this.write(encodeFrame(FrameType.cancel, stream.id));
    if (!stream.open || stream.cancelled) return;
    this.#unconfirmedCancels++;
    stream.cancel(outcome);
    if (this.#unconfirmedCancels > MAX_UNCONFIRMED_CANCELS) {
      this.fail(
        new ConnectionFailure("unresponsive", "the runner does not confirm cancelled requests"),
      );
    }
  }

  /** Ends the connection; every open stream gets the reason. */
  fail(failure: ConnectionFailure): void {
    if (this.#failure !== undefined) return;
    this.#failure = failure;
    this.#decoder.stop();
    this.#stallWatch.stop();
    this.#transport.destroy();
    this.#greeted.reject(failure);
    const streams = [...this.#streams.values()];
    this.#streams.clear();
    this.#holdingOutput.clear();
    this.#owingCredit.clear();
    clearTimeout(this.#creditTimer);
    clearTimeout(this.#readTimer);
    for (const stream of streams) stream.finish({ kind: "lost", failure });
    this.inbound.lose(failure);
  }

  write(...parts: Uint8Array[]): void {
    if (this.#failure !== undefined) return;
    if (parts.length === 1) {
      this.#transport.write(parts[0]);
      return;
    }
    this.#transport.cork();
    for (const part of parts) this.#transport.write(part);
    this.#transport.uncork();
  }

  writeThen(done: (taken: boolean) => void, ...parts: Uint8Array[]): void {
    if (this.#failure !== undefined) {
      done(false);
      return;
    }
    const last = parts.pop();
    this.#transport.cork();
    for (const part of parts) this.#transport.write(part);
    this.#transport.write(last, (error) => done(!error));
    this.#transport.uncork();
  }

  creditOwed(stream: WireStream): void {
    if (this.#failure !== undefined) return;
    this.#owingCredit.add(stream);
    this.#creditTimer ??= setTimeout(() => this.#giveCredit(), CREDIT_DELAY_MS).unref();
  }

  #giveCredit(): void {
    clearTimeout(this.#creditTimer);
    this.#creditTimer = undefined;
    for (const stream of this.#owingCredit) {
      stream.giveCredit();
      if (!stream.holdsOutput) this.#holdingOutput.delete(stream);
    }
    this.#owingCredit.clear();
  }

  #receiveChunk(chunk: Uint8Array): void {
    try {
      this.#decoder.push(chunk, this.#onFrame);
    } catch (cause) {
      const message = cause instanceof Error ? cause.message : String(cause);
      this.fail(
        new ConnectionFailure("protocol", `the runner broke the protocol: ${message}`, cause),
      );
    }
  }

  #receive(frame: Frame): void {
    if (this.#hello === undefined) {
      this.#receiveHello(frame);
      return;
    }
    if (frame.stream >= FIRST_RUNNER_STREAM_ID) {
      this.#stallWatch.frameArrived();
      this.inbound.receive(frame);
      return;
    }
    const stream = this.#streams.get(frame.stream);
    if (stream === undefined) {
      // Credit for bytes that were in flight when the stream ended is meaningless, but not a
      // violation.
      if (
        frame.type === FrameType.credit &&
        frame.stream !== 0 &&
        frame.stream < this.#nextStreamId
      )
        return;
      throw new ProtocolError(
        "unknown_stream",
        `a frame of type ${String(frame.type)} arrived for stream ${String(frame.stream)}, which is not open`,
      );
    }
    stream.lastProgressAtMs = this.#stallWatch.frameArrived();
    try {
      this.#deliver(stream, frame);
    } catch (cause) {
      if (!(cause instanceof ProtocolError)) throw cause;
      this.#condemn(stream, cause, frame.type);
    }
  }

  /** A violation on one stream fails only that stream. */
  #condemn(stream: WireStream, cause: ProtocolError, frameType: number): void {
    this.#noteBreach(cause);
    const message = `the runner broke the protocol: ${cause.message}`;
    const outcome = {
      kind: "lost",
      failure: new ConnectionFailure("protocol", message, cause),
    } as const;
    // The runner has not ended the stream yet, so later frames on it are dropped.
    if (frameType !== FrameType.response && frameType !== FrameType.error) {
      this.cancel(stream, outcome);
      return;
    }
    stream.finish(outcome);
    this.#streams.delete(stream.id);
  }

  #noteBreach(cause: ProtocolError): void {
    if (++this.#breaches > MAX_BREACHES) throw cause;
  }

  #pauseReading(ms: number): void {
    if (this.#failure !== undefined) return;
    this.#readAgainAtMs = performance.now() + ms;
    this.#transport.pause();
    // Set once per chunk of frames; the last frame determines the duration.
    const wait = (leftMs: number): NodeJS.Timeout =>
      setTimeout(() => {
        const moreMs = this.#readAgainAtMs - performance.now();
        this.#readTimer = moreMs > 0 ? wait(moreMs) : undefined;
        if (this.#readTimer === undefined) this.#transport.resume();
      }, leftMs);
    this.#readTimer ??= wait(ms);
  }

  #paceEvents(): void {
    const pauseMs = this.#eventRate.take(performance.now());
    if (pauseMs > 0) this.#pauseReading(pauseMs);
  }

  #deliver(stream: WireStream, frame: Frame): void {
    switch (frame.type) {
      case FrameType.output:
        stream.receiveOutput(frame.payload);
        return;
      case FrameType.data:
        stream.receiveData(frame.payload);
        return;
      case FrameType.credit:
        stream.receiveCredit(decodeCredit(frame.payload));
        return;
      case FrameType.end:
        stream.receiveEnd();
        return;
      case FrameType.event:
        this.#paceEvents();
        stream.receiveEvent(frame.payload);
        return;
      case FrameType.response:
        this.#finish(stream, () => ({
          kind: "response",
          message: decodeJsonObject(frame.payload),
        }));
        return;
      case FrameType.error:
        this.#finish(stream, () => ({
          kind: "error",
          error: checked(runnerErrorSchema, decodeJsonObject(frame.payload), "ERROR"),
        }));
        return;
      default:
        throw new ProtocolError(
          "unexpected_frame",
          `a runner must not send frames of type ${String(frame.type)} here`,
        );
    }
  }

  #finish(stream: WireStream, outcome: () => StreamOutcome): void {
    if (stream.cancelled) this.#unconfirmedCancels--;
    stream.finish(outcome());
    this.#streams.delete(stream.id);
    if (this.#streams.size === 0) this.#decoder.letGo();
    if (stream.holdsOutput) this.#holdingOutput.add(stream);
  }

  #receiveHello(frame: Frame): void {
    if (frame.type !== FrameType.hello || frame.stream !== 0) {
      throw new ProtocolError(
        "bad_hello",
        "the first frame of the runner is not a HELLO on stream 0",
      );
    }
    this.#hello = checked(runnerHelloSchema, decodeJsonObject(frame.payload), "HELLO");
    this.#greeted.resolve(this.#hello);
  }
}

function encodeRequest(stream: number, request: RunnerRequest): Buffer {
  try {
    return encodeJsonFrame(FrameType.request, stream, request);
  } catch (cause) {
    throw new SandboxError(
      "PAYLOAD_TOO_LARGE",
      `${request.op}: the request does not fit into one frame of 1 MiB`,
      { cause },
    );
  }
}
