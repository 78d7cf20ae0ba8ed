/** Offers a gateway to a sandbox while its channel is open, again after each lost connection. */
import { setTimeout as sleep } from "node:timers/promises";
import { networkReadyEventSchema, ProtocolError } from "@sandkasten/protocol";
import type { NetworkReady } from "@sandkasten/protocol";
import type { NetworkHandler, OpenNetwork } from "../ports/channel.ts";
import { outcomeError } from "./call.ts";
import { checked } from "./checked-message.ts";
import { ConnectionFailure } from "./connection-failure.ts";
import type { ConnectionHolder } from "./connection-holder.ts";
import { fromConnectionFailure } from "./translate-errors.ts";
import { StreamSink } from "./stream-sink.ts";
import type { StreamOutcome } from "./stream-sink.ts";

const FIRST_PAUSE_MS = 50;
const MAX_PAUSE_MS = 5_000;

class OfferSink extends StreamSink {
  readonly ready = Promise.withResolvers<NetworkReady>();
  readonly ended = Promise.withResolvers<void>();

  constructor() {
    super();
    this.ready.promise.catch(() => undefined);
  }

  override event(message: Record<string, unknown>): void {
    this.ready.resolve(checked(networkReadyEventSchema, message, "ready event"));
  }

  override finish(outcome: StreamOutcome): void {
    if (outcome.kind === "response")
      throw new ProtocolError(
        "unexpected_frame",
        "the runner closed the network without a request",
      );
    this.ready.reject(outcomeError("network", outcome));
    this.ended.resolve();
  }
}

/** Resolves when the network is open for the first time. */
export async function offerNetwork(
  holder: ConnectionHolder,
  handler: NetworkHandler,
): Promise<OpenNetwork> {
  const closing = new AbortController();
  const first = await offerOnce(holder, handler, closing.signal);
  void keepOffering(holder, handler, closing.signal, first.ended);
  return { mode: first.ready.mode, close: () => closing.abort() };
}

interface Offer {
  readonly ready: NetworkReady;
  readonly ended: Promise<void>;
}

async function offerOnce(
  holder: ConnectionHolder,
  handler: NetworkHandler,
  closing: AbortSignal,
): Promise<Offer> {
  const connection = await holder.get().catch((error: unknown) => {
    throw error instanceof ConnectionFailure ? fromConnectionFailure("network", error) : error;
  });
  const sink = new OfferSink();
  connection.inbound.serve(handler);
  const stream = connection.openStream({ op: "network" }, sink, {
    deadlineMs: holder.deadlines.answerMs,
    essential: true,
  });
  const close = (): void => {
    connection.cancel(stream);
    connection.inbound.serve(undefined);
    sink.ended.resolve();
  };
  closing.addEventListener("abort", close, { once: true });
  void sink.ended.promise.then(() => closing.removeEventListener("abort", close));
  const ready = await sink.ready.promise;
  stream.deadlineMs = undefined;
  return { ready, ended: sink.ended.promise };
}

/** Runs until the network or the channel is closed. Other code detects failures of the sandbox. */
async function keepOffering(
  holder: ConnectionHolder,
  handler: NetworkHandler,
  closing: AbortSignal,
  ended: Promise<void>,
): Promise<void> {
  let pauseMs = FIRST_PAUSE_MS;
  await ended;
  while (!closing.aborted && !holder.closed) {
    try {
      const offer = await offerOnce(holder, handler, closing);
      pauseMs = FIRST_PAUSE_MS;
      await offer.ended;
    } catch {
      await sleep(pauseMs, undefined, { ref: false });
      pauseMs = Math.min(MAX_PAUSE_MS, pauseMs * 2);
    }
  }
}
