/** An event as stored in a row. */
import type { StoredEvent } from "../ports/event-log.ts";
import type { StoredRow } from "./row-mapping.ts";

export function eventOf(row: StoredRow): StoredEvent {
  const sessionId = row["session_id"];
  return {
    position: Number(row["position"]),
    atMs: Number(row["at_ms"]),
    owner: String(row["owner"]),
    ...(typeof sessionId === "string" && { sessionId }),
    type: row["type"],
    data: JSON.parse(String(row["data"])) as unknown,
  } as StoredEvent;
}
