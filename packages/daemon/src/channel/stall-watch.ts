/** Detects a runner that owes an answer and does not send it. */
import { pingSchema } from "@sandkasten/protocol";
import type { ChannelDeadlines } from "./channel-options.ts";
import { checked } from "./checked-message.ts";
import { ConnectionFailure } from "./connection-failure.ts";
import { StreamSink } from "./stream-sink.ts";
import type { StreamOutcome } from "./stream-sink.ts";
import type { WireStream } from "./wire-stream.ts";

/** The part of the connection that the watch needs. */
interface WatchedConnection {
  openStream(
    request: { readonly op: "ping" },
    sink: StreamSink,
    options: { readonly deadlineMs: number; readonly essential: true },
  ): WireStream;
  cancel(stream: WireStream, outcome: StreamOutcome): void;
  fail(failure: ConnectionFailure): void;
}

/** The longest time between two checks; also how late a missed deadline may be detected. */
const MAX_INTERVAL_MS = 1_000;

/**
 * One timer per connection checks all its streams, and runs only while there are any. Only complete
 * frames count as signs of life.
 *
 * SECURITY: a hostile runner may trickle one byte a second forever (threat: a stalling runner). Bytes
 * of an incomplete frame are not progress, so the deadline still expires. Guarded by "byte by byte"
 * in hostile-runner.test.ts.
 */
export class StallWatch {
  readonly #connection: WatchedConnection;
  readonly #streams: ReadonlyMap<number, WireStream>;
  readonly #deadlines: ChannelDeadlines;
  /** While it returns true (the sandbox is paused), time does not count against the runner. */
  readonly #silenceExpected: () => boolean;
  readonly #intervalMs: number;
  #timer: NodeJS.Timeout | undefined;
  #lastLookAtMs = 0;
  #lastFrameAtMs = 0;
  #pinging = false;

  constructor(
    connection: WatchedConnection,
    streams: ReadonlyMap<number, WireStream>,
    deadlines: ChannelDeadlines,
    silenceExpected: () => boolean,
  ) {
    this.#connection = connection;
    this.#streams = streams;
    this.#deadlines = deadlines;
    this.#silenceExpected = silenceExpected;
    const shortest = Math.min(deadlines.answerMs, deadlines.keepaliveMs);
    this.#intervalMs = Math.min(MAX_INTERVAL_MS, Math.max(5, shortest / 4));
  }

  /** Records a sign of life and returns its time. */
  frameArrived(): number {
    this.#lastFrameAtMs = performance.now();
    return this.#lastFrameAtMs;
  }

  start(): void {
    if (this.#timer !== undefined) return;
    this.#lastLookAtMs = this.frameArrived();
    this.#timer = setInterval(() => this.#look(), this.#intervalMs).unref();
  }

  stop(): void {
    clearInterval(this.#timer);
    this.#timer = undefined;
  }

  #look(): void {
    const nowMs = performance.now();
    const lateMs = nowMs - this.#lastLookAtMs - this.#intervalMs;
    this.#lastLookAtMs = nowMs;
    if (this.#streams.size === 0) {
      this.stop();
      return;
    }
    // If this process itself was stalled, answers may be unread in the socket.
    if (lateMs > this.#intervalMs || this.#silenceExpected()) {
      this.#lastFrameAtMs = nowMs;
      for (const stream of this.#streams.values()) stream.lastProgressAtMs = nowMs;
      return;
    }
    for (const stream of this.#streams.values()) {
      if (stream.deadlineMs === undefined || stream.cancelled || !stream.awaitsRunner) continue;
      if (nowMs - stream.lastProgressAtMs > stream.deadlineMs)
        this.#connection.cancel(stream, { kind: "stalled" });
    }
    if (nowMs - this.#lastFrameAtMs > this.#deadlines.keepaliveMs) this.#ping();
  }

  #ping(): void {
    if (this.#pinging) return;
    this.#pinging = true;
    const sink = new PingSink((alive) => {
      this.#pinging = false;
      if (!alive)
        this.#connection.fail(
          new ConnectionFailure(
            "unresponsive",
            "the runner does not answer; it may be frozen or stuck",
          ),
        );
    });
    this.#connection.openStream({ op: "ping" }, sink, {
      deadlineMs: this.#deadlines.answerMs,
      essential: true,
    });
  }
}

class PingSink extends StreamSink {
  readonly #report: (alive: boolean) => void;

  constructor(tell: (alive: boolean) => void) {
    super();
    this.#report = tell;
  }

  override finish(outcome: StreamOutcome): void {
    if (outcome.kind === "response") checked(pingSchema, outcome.message, "answer to ping");
    if (outcome.kind !== "lost") this.#report(outcome.kind !== "stalled");
  }
}
