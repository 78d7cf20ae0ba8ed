/** Tries for a while to get a connection to a runner back. */
import { setTimeout as sleep } from "node:timers/promises";
import type { Connection } from "./connection.ts";
import { ConnectionFailure } from "./connection-failure.ts";
import type { ConnectionHolder } from "./connection-holder.ts";

const FIRST_PAUSE_MS = 20;
const MAX_PAUSE_MS = 1_000;
/** Where nothing listens any more, few tries tell as much as many. */
const MAX_REFUSALS = 4;

/** A connection, or why there is none. `losses` is how often in a row it was lost right away; each makes the first pause longer. */
export async function reconnect(
  holder: ConnectionHolder,
  losses: number,
  givenUp: () => boolean,
): Promise<Connection | ConnectionFailure> {
  const untilMs = performance.now() + holder.deadlines.reattachMs;
  let pauseMs = losses > 1 ? FIRST_PAUSE_MS * 2 ** losses : 0;
  let refusals = 0;
  for (;;) {
    if (pauseMs > 0) await sleep(Math.min(pauseMs, MAX_PAUSE_MS));
    try {
      return await holder.get();
    } catch (error) {
      if (!(error instanceof ConnectionFailure)) throw error;
      if (error.kind === "refused") refusals++;
      const hopeless =
        error.kind === "closed" || error.kind === "protocol" || refusals >= MAX_REFUSALS;
      if (hopeless || givenUp() || performance.now() >= untilMs) return error;
    }
    pauseMs = Math.max(FIRST_PAUSE_MS, pauseMs * 2);
  }
}
