/** The event feed: each event once, in order, over connections that may break. */
import type { EventBody } from "@sandkasten/protocol";
import type { CallOptions } from "./call-options.ts";
import { camelKeys } from "./camel-keys.ts";
import { type JsonEvent, resumeEvents } from "./event-stream.ts";
import { camelOptions, type WithSnakeNames, withSnakeNames } from "./snake-names.ts";
import type { Transport } from "./transport.ts";
import type { EventType } from "./wire-names.ts";

interface EventFields {
  /** The event's id, and the cursor to continue after it. */
  readonly id: string;
  /** `gap` when events are missing before the next one; `data.reason` says why. */
  readonly type: EventType | "gap";
  /** When it happened; for a gap, when it was noticed. */
  readonly time: string;
  /** The owner. Empty for the daemon itself. */
  readonly owner: string;
  readonly sessionId?: string;
  /** The data of an event of this type. */
  readonly data: Readonly<Record<string, unknown>>;
}

/** An event of the feed. */
export type SandboxEvent = WithSnakeNames<EventFields>;

interface EventOptionFields extends CallOptions {
  /** Types such as `exec.ended`, or first words such as `session`. All types by default. */
  readonly types?: readonly string[] | undefined;
  /** Continue after the event with this `id`. */
  readonly cursor?: string | undefined;
  /** Where to begin without a cursor; `now`, or `start` when `follow` is false. */
  readonly from?: "now" | "start" | undefined;
  /** Whether to keep streaming new events. true by default. */
  readonly follow?: boolean | undefined;
}

/** Which events, and from where on. */
export type SessionEventOptions = WithSnakeNames<EventOptionFields>;

interface AllEventOptionFields extends EventOptionFields {
  /** Only events of this session. */
  readonly sessionId?: string | undefined;
  /** Only events of this owner, for an administrator. */
  readonly owner?: string | undefined;
}

/** Which events, and from where on. */
export type EventOptions = WithSnakeNames<AllEventOptionFields>;

/** Ends when the loop is left, or with `follow: false` after the current events. */
export async function* followEvents(
  transport: Transport,
  path: string,
  options: EventOptions,
): AsyncGenerator<SandboxEvent, void, undefined> {
  const { types, cursor: begin, from, follow, sessionId, owner, signal } = camelOptions(options);
  let cursor = begin;
  const open = (): Promise<Response> =>
    transport.open({
      method: "GET",
      path,
      query: {
        cursor,
        follow: follow === false ? false : undefined,
        from: cursor === undefined ? from : undefined,
        types: types?.join(","),
        session_id: sessionId,
        owner,
      },
      signal,
    });
  const what = "following events";
  const events = resumeEvents({ open, policy: transport.options, signal, what });
  for await (const event of events) {
    if (event.type === "done") return;
    if (event.id !== undefined && event.id !== "") cursor = event.id;
    const shown = toEvent(event);
    if (shown !== undefined) yield shown;
  }
}

function toEvent({ type, data, id = "" }: JsonEvent): SandboxEvent | undefined {
  if (type === "gap") {
    const time = new Date().toISOString();
    const gap: EventFields = { id, type, time, owner: "", data: data as { reason: string } };
    return withSnakeNames(gap);
  }
  if (type !== "event") return undefined;
  const { session_id: sessionId, data: inner, ...rest } = data as EventBody;
  return withSnakeNames({
    ...rest,
    ...(sessionId !== undefined && { sessionId }),
    data: withSnakeNames(camelKeys(inner)),
  });
}
