/** Events of a run over HTTP: live as server-sent events, or one page as JSON. */
import type { FastifyReply, FastifyRequest } from "fastify";
import type { ServerResponse } from "node:http";
import { z } from "zod";
import type { EventPage, RunEventBody } from "../client/wire-types.ts";
import type { EventLog, RunEvent } from "../store/event-log.ts";
import { parseQuery } from "./parse-request.ts";

export interface RunEventsOptions {
  readonly events: EventLog;
  readonly runId: string;
  /** Whether the store says that no further event will come. */
  readonly isOver: () => boolean;
  /** Ends all streams when the service stops. */
  readonly stopping: AbortSignal;
}

const PING_INTERVAL_MS = 15_000;
/** A reader that accepts nothing for this long is gone. */
const STALL_TIMEOUT_MS = 60_000;
const PAGE_SIZE = 500;

const query = z.looseObject({
  cursor: z.coerce.number().int().min(0).optional(),
  limit: z.coerce.number().int().min(1).max(PAGE_SIZE).optional(),
});

/** Answers `GET …/events`: replays after `cursor` or `Last-Event-ID`, then follows. */
export async function serveRunEvents(
  request: FastifyRequest,
  reply: FastifyReply,
  options: RunEventsOptions,
): Promise<EventPage | FastifyReply> {
  const { cursor, limit = PAGE_SIZE } = parseQuery(query, request.query);
  const after = cursor ?? lastEventId(request) ?? 0;
  const accept = request.headers.accept ?? "";
  if (accept.includes("application/json") && !accept.includes("text/event-stream"))
    return page(options, after, limit);
  reply.hijack();
  await stream(reply.raw, headersOf(reply), options, after);
  return reply;
}

function eventBody({ seq, time, type, data }: RunEvent): RunEventBody {
  return { ...data, seq, time, type };
}

function lastEventId({ headers }: FastifyRequest): number | undefined {
  const id = headers["last-event-id"];
  return typeof id === "string" && /^\d{1,15}$/.test(id) ? Number(id) : undefined;
}

function page(
  { events, runId, isOver }: RunEventsOptions,
  after: number,
  limit: number,
): EventPage {
  // Subscribes before reading, so that no event is missed in between.
  const over = isOver();
  const found = events.read(runId, after, limit);
  return {
    events: found.map(eventBody),
    next_cursor: found.at(-1)?.seq ?? after,
    done: over && found.length < limit,
  };
}

function headersOf(reply: FastifyReply): Record<string, string> {
  const set = Object.entries(reply.getHeaders()).map(([name, value]) => [name, String(value)]);
  return {
    ...(Object.fromEntries(set) as Record<string, string>),
    "content-type": "text/event-stream; charset=utf-8",
    // A proxy that buffers responses would delay events.
    "x-accel-buffering": "no",
  };
}

/**
 * SECURITY: events are read from the database as fast as the reader accepts them, so a reader that
 * does not read costs one page of memory and, after a while, nothing. Guarded by
 * run-events.test.ts.
 */
async function stream(
  response: ServerResponse,
  headers: Record<string, string>,
  { events, runId, isOver, stopping }: RunEventsOptions,
  after: number,
): Promise<void> {
  const left = new AbortController();
  const leave = (): void => left.abort();
  response.once("close", leave);
  response.on("error", leave);
  stopping.addEventListener("abort", leave, { once: true });
  const ping = setInterval(() => {
    if (!response.writableNeedDrain) response.write(": ping\n\n");
  }, PING_INTERVAL_MS);
  try {
    response.writeHead(200, headers);
    response.flushHeaders();
    for await (const event of events.follow(runId, after, left.signal, isOver)) {
      const data = oneLine(eventBody(event));
      const isTaken = response.write(`id: ${event.seq}\nevent: ${event.type}\ndata: ${data}\n\n`);
      if (!isTaken) await drained(response, left.signal);
    }
  } finally {
    clearInterval(ping);
    stopping.removeEventListener("abort", leave);
    response.end();
  }
}

async function drained(response: ServerResponse, left: AbortSignal): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  const go = (): void => resolve();
  const timer = setTimeout(() => response.destroy(), STALL_TIMEOUT_MS);
  response.once("drain", go);
  left.addEventListener("abort", go, { once: true });
  await promise;
  clearTimeout(timer);
  response.off("drain", go);
  left.removeEventListener("abort", go);
}

/**
 * JSON without the characters at which some readers split lines, in addition to those JSON escapes.
 */
function oneLine(data: object): string {
  return JSON.stringify(data).replaceAll(
    /[\u0085\u2028\u2029]/g,
    (sign) => `\\u${sign.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );
}
