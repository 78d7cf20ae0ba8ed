/** One stream of a connection: its flow control in both directions and its state. */
import {
  encodeCreditFrame,
  encodeFrame,
  encodeFrameHeader,
  FrameType,
  INITIAL_CREDIT_BYTES,
  OUTPUT_HEAD_BYTES,
  ProtocolError,
} from "@sandkasten/protocol";
import type { StreamOutcome, StreamSink } from "./stream-sink.ts";

/** Largest DATA frame sent; small enough that streams interleave fairly. */
const DATA_FRAME_BYTES = 131_072;

/** The part of the connection that its streams need. */
export interface StreamHost {
  write(...parts: Uint8Array[]): void;
  /** Like `write`, then calls back when the transport has accepted the parts, or with false if it failed. */
  writeThen(done: (taken: boolean) => void, ...parts: Uint8Array[]): void;
  /** Schedules a small amount of owed credit to be sent soon, together with other frames. */
  creditOwed(stream: WireStream): void;
}

interface OutgoingBytes {
  readonly bytes: Uint8Array;
  sent: number;
  /** Called with `true` when everything was handed over, `false` if the stream ended before. */
  readonly settle: (sent: boolean) => void;
}

export class WireStream {
  readonly id: number;
  /** How long the runner may take to answer; undefined while it owes no answer. */
  deadlineMs: number | undefined;
  lastProgressAtMs: number;

  readonly #host: StreamHost;
  /** Undefined after cancellation: what still arrives is counted and dropped. */
  #sink: StreamSink | undefined;
  #open = true;
  #sawOutput = false;
  readonly #windowBytes: number;
  readonly #maxSendCreditBytes: number;
  /** The credit may exceed what should be buffered in this process, so each send waits for the transport. */
  readonly #settlesWhenWritten: boolean;
  #sendCredit: number;
  readonly #outgoing: OutgoingBytes[] = [];
  #outgoingEnd: "open" | "wanted" | "sent" = "open";
  #sendsBody = false;
  #receiveCredit: number;
  #owedCredit = 0;
  #peerEnded = false;

  constructor(
    id: number,
    sink: StreamSink,
    host: StreamHost,
    deadlineMs: number | undefined,
    windowBytes: number = INITIAL_CREDIT_BYTES,
    maxSendCreditBytes?: number,
  ) {
    this.id = id;
    this.#windowBytes = windowBytes;
    this.#maxSendCreditBytes = maxSendCreditBytes ?? windowBytes;
    this.#settlesWhenWritten = maxSendCreditBytes !== undefined;
    this.#sendCredit = windowBytes;
    this.#receiveCredit = windowBytes;
    this.#sink = sink;
    this.#host = host;
    this.deadlineMs = deadlineMs;
    this.lastProgressAtMs = performance.now();
  }

  get open(): boolean {
    return this.#open;
  }

  /** Cancelled by us, and the runner has not confirmed the end yet. */
  get cancelled(): boolean {
    return this.#open && this.#sink === undefined;
  }

  /** Ended, but the runner keeps its output until it is acknowledged or discarded. */
  get holdsOutput(): boolean {
    return !this.#open && this.#sawOutput && this.unconsumedBytes > 0;
  }

  /** Received bytes that have not been consumed. */
  get unconsumedBytes(): number {
    return this.#windowBytes - this.#receiveCredit - this.#owedCredit;
  }

  /** Whether the runner must act next: not while we owe it a body, nor while our reader has data to read. */
  get awaitsRunner(): boolean {
    if (this.#sendsBody && this.#outgoingEnd !== "sent") return this.#outgoing.length > 0;
    return this.unconsumedBytes === 0;
  }

  /**
   * Sends bytes as credit allows. They must not be changed afterwards, because a transport may hold
   * them. Resolves to false if the stream ended before all were sent. A stream with more credit
   * than its window resolves only when the transport has accepted them.
   */
  send(bytes: Uint8Array): Promise<boolean> {
    if (!this.#open || this.cancelled || this.#outgoingEnd !== "open")
      return Promise.resolve(false);
    this.#sendsBody = true;
    if (bytes.byteLength === 0) return Promise.resolve(true);
    return new Promise((settle) => {
      this.#outgoing.push({ bytes, sent: 0, settle });
      this.#pump();
    });
  }

  /** Sends END after everything passed to `send` so far. */
  sendEnd(): void {
    if (!this.#open || this.cancelled || this.#outgoingEnd !== "open") return;
    this.#sendsBody = true;
    this.#outgoingEnd = "wanted";
    this.#pump();
  }

  /** Notifies the runner that the stream is cancelled. The sink gets only the outcome given here, if any. */
  cancel(outcome?: StreamOutcome): void {
    if (!this.#open || this.cancelled) return;
    const sink = this.#sink;
    this.#sink = undefined;
    this.#stopSending();
    this.#host.write(encodeFrame(FrameType.cancel, this.id));
    if (outcome !== undefined) sink?.finish(outcome);
  }

  /** Asks the runner to cancel the request. Unlike after `cancel`, the sink gets the outcome. */
  withdraw(): void {
    if (!this.#open || this.cancelled) return;
    this.#stopSending();
    this.#outgoingEnd = "sent";
    this.lastProgressAtMs = performance.now();
    this.#host.write(encodeFrame(FrameType.cancel, this.id));
  }

  /** Returns credit for consumed bytes. For output this is also the acknowledgement. */
  consumed(bytes: number): void {
    if (bytes === 0 || this.cancelled || (!this.#open && !this.holdsOutput)) return;
    this.#owedCredit += bytes;
    this.lastProgressAtMs = performance.now();
    // In portions of half the window: few frames, and the runner can keep sending meanwhile.
    if (this.#owedCredit >= this.#windowBytes / 2) this.giveCredit();
    else this.#host.creditOwed(this);
  }

  /** Sends the credit that is owed. */
  giveCredit(): void {
    if (this.#owedCredit === 0 || this.cancelled) return;
    this.#host.write(encodeCreditFrame(this.id, this.#owedCredit));
    this.#receiveCredit += this.#owedCredit;
    this.#owedCredit = 0;
  }

  receiveOutput(payload: Buffer): void {
    this.#useReceiveCredit(payload.byteLength - OUTPUT_HEAD_BYTES);
    this.#sawOutput = true;
    this.#sink?.output(payload);
  }

  receiveData(bytes: Buffer): void {
    if (this.#peerEnded)
      throw new ProtocolError("unexpected_frame", "the runner sent DATA after its END");
    this.#useReceiveCredit(bytes.byteLength);
    this.#sink?.data(bytes);
  }

  receiveEnd(): void {
    if (this.#peerEnded) throw new ProtocolError("unexpected_frame", "the runner sent END twice");
    this.#peerEnded = true;
    this.#sink?.end();
  }

  receiveEvent(payload: Buffer): void {
    this.#sink?.receiveEvent(payload);
  }

  receiveCredit(bytes: number): void {
    // SECURITY: it would count as progress, so a runner could miss every deadline (threat: a stalling
    // runner). Guarded by "credit for no bytes" in hostile-runner.test.ts.
    if (bytes === 0)
      throw new ProtocolError("unexpected_frame", "the runner granted credit for no bytes");
    // SECURITY: credit is granted for consumed bytes only, so it never exceeds the first window.
    // More would let a hostile runner make us buffer a whole upload. Guarded by "credit beyond what
    // was sent" in hostile-runner.test.ts.
    if (this.#sendCredit + bytes > this.#maxSendCreditBytes) {
      throw new ProtocolError(
        "credit_overflow",
        `the runner granted credit for ${String(bytes)} bytes, more than were sent`,
      );
    }
    this.#sendCredit += bytes;
    this.#pump();
  }

  /** Ends the stream. If the sink throws, the stream stays open for the loss that follows. */
  finish(outcome: StreamOutcome): void {
    if (!this.#open) return;
    this.#sink?.finish(outcome);
    this.#open = false;
    this.#sink = undefined;
    this.#stopSending();
  }

  #useReceiveCredit(bytes: number): void {
    if (bytes > this.#receiveCredit) {
      throw new ProtocolError(
        "credit_exceeded",
        `the runner sent ${String(bytes)} bytes with credit for ${String(this.#receiveCredit)}`,
      );
    }
    this.#receiveCredit -= bytes;
  }

  #pump(): void {
    for (
      let next = this.#outgoing[0];
      next !== undefined && this.#sendCredit > 0;
      next = this.#outgoing[0]
    ) {
      const bytes = Math.min(next.bytes.byteLength - next.sent, this.#sendCredit, DATA_FRAME_BYTES);
      const { settle } = next;
      const isLast = next.sent + bytes === next.bytes.byteLength;
      const frame = [
        encodeFrameHeader(FrameType.data, this.id, bytes),
        next.bytes.subarray(next.sent, next.sent + bytes),
      ] as const;
      this.#sendCredit -= bytes;
      next.sent += bytes;
      this.lastProgressAtMs = performance.now();
      if (isLast) this.#outgoing.shift();
      if (isLast && this.#settlesWhenWritten) this.#host.writeThen(settle, ...frame);
      else {
        this.#host.write(...frame);
        if (isLast) settle(true);
      }
    }
    if (this.#outgoingEnd === "wanted" && this.#outgoing.length === 0) {
      this.#outgoingEnd = "sent";
      this.lastProgressAtMs = performance.now();
      this.#host.write(encodeFrame(FrameType.end, this.id));
    }
  }

  #stopSending(): void {
    for (const part of this.#outgoing.splice(0)) part.settle(false);
  }
}
