/** Turns events into log lines. */
import type { NewEvent } from "../ports/event-log.ts";
import type { Log } from "../ports/log.ts";
import type { EventListener } from "./recorder.ts";

/** Too frequent for the default log level. */
const UNLOGGED = ["exec.", "file."];
const ALARMING: ReadonlySet<string> = new Set(["crashed", "failed"]);

export function eventLines(log: Log): EventListener {
  return (events) => {
    for (const event of events) {
      if (UNLOGGED.some((group) => event.type.startsWith(group))) continue;
      const { type, owner, sessionId: session, data } = event;
      const fields = { event: type, ...(owner !== "" && { owner }), session, ...data };
      if (isAlarming(event)) log.warn(fields, type);
      else log.info(fields, type);
    }
  };
}

function isAlarming({ type, data }: NewEvent): boolean {
  if (type === "session.ended") return ALARMING.has(data.status);
  return type === "pool.failed" || type === "events.lost";
}
