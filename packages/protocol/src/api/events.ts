/** The event feed in the HTTP API: what happened, to what, and where to continue reading. */
import { z } from "zod";
import { count, flagInQuery, idInPath, timestamp } from "./common.ts";
import { endReasonSchema } from "./execs.ts";

const reason = z.string().optional();
const reference = z.string();
const pooled = {
  image: reference,
  profile: z.enum(["restricted", "root"]),
};

/**
 * The data of each event type. Contains nothing that must not be logged: no commands, variables or
 * file contents.
 */
const EVENT_DATA = {
  "session.created": z.object({
    image: reference,
    backend: z.string(),
    key: z.string().optional(),
  }),
  "session.running": z.object({
    acquire_source: z.enum(["pool", "cold"]),
    duration_ms: z.number().optional().meta({ description: "How long creating it took" }),
  }),
  "session.paused": z.object({}),
  "session.resumed": z.object({}),
  "session.ended": z.object({
    status: z.enum(["destroyed", "expired", "crashed", "failed"]),
    reason,
    error_code: z.string().optional().meta({ description: "Why it could not be created" }),
    lifetime_ms: z.number().optional(),
  }),
  "exec.started": z.object({
    exec_id: z.string(),
    mode: z.enum(["shell", "process"]),
    shell: z.string().optional(),
  }),
  "exec.ended": z.object({
    exec_id: z.string(),
    mode: z.enum(["shell", "process"]),
    runtime: z.string().optional().meta({
      description: "The interpreter: `python`, `node`, `bash`, or `other`",
    }),
    end_reason: endReasonSchema,
    exit_code: z.number().int().optional(),
    signal: z.number().int().optional(),
    duration_ms: z.number(),
    stdout_bytes: count,
    stderr_bytes: count,
  }),
  "file.changed": z.object({
    changes: count.meta({
      description: "Calls that changed files since the previous event of this type",
    }),
    paths: z
      .array(z.string())
      .meta({ description: "The first paths. Incomplete if `more` is set" }),
    more: z.boolean(),
    workspace_id: z.string().optional().meta({
      description: "The workspace, if the call did not use a session",
    }),
  }),
  "image.added": z.object({
    reference,
    digest: z.string(),
    source: z.enum(["host", "rootfs", "oci-archive", "registry"]),
    backend: z.string(),
  }),
  "image.removed": z.object({ reference, backend: z.string() }),
  "image.collected": z.object({ backend: z.string(), removed: count, freed_bytes: count }),
  "pool.added": z.object({ ...pooled, ready: count }),
  "pool.taken": z.object({ ...pooled, ready: count }),
  "pool.failed": z.object({ ...pooled, reason: z.string() }),
  "key.created": z.object({ key_id: z.string(), name: z.string(), scope: z.string() }),
  "key.revoked": z.object({ key_id: z.string(), name: z.string() }),
  "daemon.started": z.object({ version: z.string() }),
  "events.lost": z.object({
    events: count.meta({ description: "Events that could not be stored" }),
  }),
} as const;

export type EventType = keyof typeof EVENT_DATA;
export const EVENT_TYPES = Object.keys(EVENT_DATA) as readonly EventType[];

type EventData<Type extends EventType> = z.output<(typeof EVENT_DATA)[Type]>;

/** One event of any type, without its position in the feed. */
export type AnyEventData = {
  readonly [Type in EventType]: { readonly type: Type; readonly data: EventData<Type> };
}[EventType];

const schemaOf = <Type extends EventType>(type: Type) =>
  z.object({
    id: z.string().meta({ description: "The event's id, and the cursor to continue after it" }),
    type: z.literal(type),
    time: timestamp,
    owner: z.string().meta({ description: "The owner. Empty for the daemon itself" }),
    session_id: z.string().optional(),
    data: EVENT_DATA[type],
  });

const [first, ...others] = EVENT_TYPES.map((type) => schemaOf(type));

export const eventSchema = z
  .discriminatedUnion("type", [first as NonNullable<typeof first>, ...others])
  .meta({ id: "Event" });
export type EventBody = AnyEventData & {
  readonly id: string;
  readonly time: string;
  readonly owner: string;
  readonly session_id?: string;
};

/** `session` matches all types that begin with `session.`. */
const EVENT_FAMILIES: readonly string[] = [
  ...new Set(EVENT_TYPES.map((type) => type.slice(0, type.indexOf(".")))),
];
const MAX_TYPES = 32;
const NAMES: ReadonlySet<string> = new Set([...EVENT_TYPES, ...EVENT_FAMILIES]);

const typesInQuery = z
  .string()
  .max(1024)
  .transform((text) => text.split(","))
  .refine((names) => names.length <= MAX_TYPES, `must name at most ${MAX_TYPES} types`)
  .refine(
    (names) => names.every((name) => NAMES.has(name)),
    `must be types of events, or their first words, separated by commas: ${EVENT_FAMILIES.join(", ")}`,
  );

const cursor = z.string().regex(/^[A-Za-z0-9_-]{22}$/, "is not an event cursor");

export const sessionEventsQuery = z.object({
  types: typesInQuery.optional().meta({
    type: "string",
    description:
      "Only these types, separated by commas: `exec.ended`, or a first word such as `session` for all types that begin with it",
  }),
  cursor: cursor.optional().meta({
    description:
      "Continue after the event with this `id`. The header `Last-Event-ID` does the same and takes precedence",
  }),
  from: z.enum(["now", "start"]).optional().meta({
    description:
      "Where to begin without a cursor. `start` is the oldest stored event. The default is `now`, or `start` with `follow=false`",
  }),
  follow: flagInQuery.optional().meta({
    description: "`false` ends the stream with `done` after the events that exist now",
  }),
});

export const eventsQuery = sessionEventsQuery.extend({
  session_id: idInPath.optional().meta({ description: "Only events of this session" }),
  owner: z.string().min(1).max(256).optional().meta({
    description: "Only events of this owner. Requires an administrator's key",
  }),
});

export const eventsHeaders = z.looseObject({
  "last-event-id": z.string().max(256).optional().meta({
    description: "The `id` of the last event, as browsers send it when they reconnect",
  }),
});
