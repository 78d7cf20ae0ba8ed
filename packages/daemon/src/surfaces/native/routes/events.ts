/** The event feed: past and live events, as a stream that can be resumed anywhere. */
import {
  EVENT_TYPES,
  eventSchema,
  eventsHeaders,
  eventsQuery,
  sessionEventsQuery,
} from "@sandkasten/protocol";
import type { FastifyReply, FastifyRequest } from "fastify";
import type { z } from "zod";
import type { FeedItem } from "../../../events/feed.ts";
import type { WatchEvents } from "../../../sessions/services/event-service.ts";
import type { App } from "../../http/app.ts";
import { EventStream } from "../../http/responses/event-stream.ts";
import { eventBody } from "../bodies/event-body.ts";
import type { NativeContext } from "../context.ts";
import { answerOf, errors } from "../openapi/documented-responses.ts";
import { sessionParams } from "./params.ts";

const tags = ["events"];
const description = [
  "Server-sent events. The first event is `ready`, with the `cursor` where the stream begins.",
  "Each `event` has the form `Event`; its `id` is the cursor to continue from, also as `Last-Event-ID`.",
  "`gap` says that events after the cursor are missing, and why (`retention` or `unknown_cursor`); the events after it are complete.",
  "With `follow=false` the last event is `done`. Otherwise the stream continues until the client disconnects; if the daemon ends it, the last event is `error`.",
].join(" ");

export function eventRoutes(app: App, context: NativeContext): void {
  app.get(
    "/events",
    {
      exposeHeadRoute: false,
      config: { stream: true },
      schema: {
        tags,
        summary: "Stream all events that the key can see",
        description,
        querystring: eventsQuery,
        headers: eventsHeaders,
        response: {
          ...answerOf(200, "text/event-stream", "Events as they happen", eventSchema),
          ...errors("SESSION_NOT_FOUND", "QUOTA_EXCEEDED"),
        },
      },
    },
    async (request, reply) => {
      const { session_id: sessionId, owner } = request.query;
      await serve(request, reply, context, {
        ...watchOf(request.query, request.headers["last-event-id"]),
        ...(sessionId !== undefined && { sessionId }),
        ...(owner !== undefined && { owner }),
      });
    },
  );

  app.get(
    "/sessions/:id/events",
    {
      exposeHeadRoute: false,
      config: { stream: true },
      schema: {
        tags,
        summary: "Stream the events of one session",
        description,
        params: sessionParams,
        querystring: sessionEventsQuery,
        headers: eventsHeaders,
        response: {
          ...answerOf(200, "text/event-stream", "Events as they happen", eventSchema),
          ...errors("SESSION_NOT_FOUND", "QUOTA_EXCEEDED"),
        },
      },
    },
    async (request, reply) => {
      await serve(request, reply, context, {
        ...watchOf(request.query, request.headers["last-event-id"]),
        sessionId: request.params.id,
      });
    },
  );
}

type Watch = Omit<WatchEvents, "signal">;

async function serve(
  { caller }: FastifyRequest,
  reply: FastifyReply,
  context: NativeContext,
  watch: Watch,
): Promise<void> {
  const gone = new AbortController();
  reply.raw.once("close", () => gone.abort());
  using follower = await context.services.events.open(caller, { ...watch, signal: gone.signal });
  await EventStream.serve(reply, context, async (stream) => {
    stream.signal.addEventListener("abort", () => gone.abort(), { once: true });
    for await (const item of follower.items()) await send(stream, item);
    await stream.send("done", {});
  });
}

async function send(stream: EventStream, item: FeedItem): Promise<void> {
  const { cursor } = item;
  if (item.kind === "event") await stream.send("event", eventBody(item.event, cursor), cursor);
  else if (item.kind === "gap") await stream.send("gap", { reason: item.reason }, cursor);
  else await stream.send("ready", { cursor }, cursor);
}

function watchOf(
  query: z.output<typeof sessionEventsQuery>,
  lastEventId: string | undefined,
): Watch {
  const { types, from, follow = true } = query;
  const cursor = lastEventId ?? query.cursor;
  return {
    from: cursor === undefined ? (from ?? (follow ? "now" : "start")) : { cursor },
    once: !follow,
    ...(types !== undefined && { types: new Set(types.flatMap(typesOf)) }),
  };
}

/** `session` matches all types that begin with `session.`. */
function typesOf(name: string): readonly string[] {
  return name.includes(".") ? [name] : EVENT_TYPES.filter((type) => type.startsWith(`${name}.`));
}
