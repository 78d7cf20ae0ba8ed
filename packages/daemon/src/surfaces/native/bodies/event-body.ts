/** Converts events to the API's format. */
import type { EventBody } from "@sandkasten/protocol";
import type { StoredEvent } from "../../../ports/event-log.ts";

export function eventBody(
  { type, atMs, owner, sessionId, data }: StoredEvent,
  cursor: string,
): EventBody {
  return {
    id: cursor,
    type,
    time: new Date(atMs).toISOString(),
    owner,
    ...(sessionId !== undefined && { session_id: sessionId }),
    data,
  } as EventBody;
}
