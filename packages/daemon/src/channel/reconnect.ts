/** Tries for a limited time to restore a connection to a runner. */
import { setTimeout as sleep } from "node:timers/promises";
import { ObservedDeadline } from "../observed-deadline.ts";
import type { Connection } from "./connection.ts";
import { ConnectionFailure } from "./connection-failure.ts";
import type { ConnectionHolder } from "./connection-holder.ts";

const FIRST_PAUSE_MS = 20;
const MAX_PAUSE_MS = 1_000;
/** If nothing listens, more attempts do not help. */
const MAX_REFUSALS = 4;

export interface ReconnectOptions {
  /** How often in a row the connection was lost immediately; each loss lengthens the first pause. */
  readonly losses: number;
  /** The minimum time to keep trying. */
  readonly patienceMs: number;
  readonly givenUp: () => boolean;
  /** Whether to keep trying beyond that: a frozen runner may resume while its command has time left. */
  readonly hasTimeLeft: () => boolean;
}

/** A connection, or the reason that there is none. */
export async function reconnect(
  holder: ConnectionHolder,
  { losses, patienceMs, givenUp, hasTimeLeft }: ReconnectOptions,
): Promise<Connection | ConnectionFailure> {
  let isOver = false;
  const deadline = new ObservedDeadline(patienceMs, () => (isOver = true));
  let pauseMs = losses > 1 ? FIRST_PAUSE_MS * 2 ** losses : 0;
  let refusals = 0;
  try {
    for (;;) {
      if (pauseMs > 0) await sleep(Math.min(pauseMs, MAX_PAUSE_MS));
      try {
        return await holder.get();
      } catch (error) {
        if (!(error instanceof ConnectionFailure)) throw error;
        if (error.kind === "refused") refusals++;
        const hopeless =
          error.kind === "closed" || error.kind === "protocol" || refusals >= MAX_REFUSALS;
        if (hopeless || givenUp() || (isOver && !hasTimeLeft())) return error;
      }
      pauseMs = Math.max(FIRST_PAUSE_MS, pauseMs * 2);
    }
  } finally {
    deadline.stop();
  }
}
