/** Commands as event streams: run and followed, or resumed from a cursor. */
import { countInQuery, execRequestSchema, followOutputQuery } from "@sandkasten/protocol";
import type { FastifyReply } from "fastify";
import { z } from "zod";
import type { JournalChunk } from "../../../../ports/exec-journal.ts";
import type { ExecHandle, FollowOptions } from "../../../../sessions/services/exec-service.ts";
import {
  answerOf,
  errors,
  EXEC_ERRORS,
  idempotencyHeaders,
  KNOWN_EXEC_ERRORS,
} from "../../openapi/documented-responses.ts";
import { endError } from "../../bodies/exec-body.ts";
import { startOptions } from "../../bodies/exec-request.ts";
import { cancelWhenGone } from "./cancel-when-gone.ts";
import type { App } from "../../../http/app.ts";
import type { NativeContext } from "../../context.ts";
import { EventStream } from "../../../http/responses/event-stream.ts";
import { TextEvents } from "../../../http/responses/text-events.ts";
import type { TextEvent } from "../../../http/responses/text-events.ts";
import { ANY_PIECE_BYTES, piecesOf, PLAIN_PIECE_BYTES } from "../../bodies/chunk-pieces.ts";
import { TextChunks } from "../../bodies/text-chunks.ts";
import { execInfo } from "./execs.ts";
import { execParams, sessionParams } from "../params.ts";

const tags = ["commands"];
const description = [
  "`chunk` events have `chunk`, `timestamp`, `seq`, `stream` and `offset`; their `id` is the cursor to continue from.",
  "The last event is `done` with the command, or `error` with `error` (a sentence) and `error_code`.",
  "`skipped` has `skipped_bytes` and `offset` of output that was lost. The header `X-Exec-Id` names the command.",
].join(" ");
const events = answerOf(200, "text/event-stream", "Events as they happen");

/** Shorter chunks are sent as strings, which is as fast for them. */
const LONG_BYTES = 512;
/** Until a page is this large, all is sent as strings, so most streams need no memory for events. */
const LARGE_PAGE_BYTES = 32 * 1024;

interface Followed extends Pick<FollowOptions, "until" | "stream"> {
  readonly cursor: number;
  readonly raw: boolean;
}

/** The part of the output that a query selects. */
function chosen(query: z.output<typeof followOutputQuery>): Pick<Followed, "until" | "stream"> {
  return {
    ...(query.until !== undefined && { until: query.until }),
    ...(query.stream !== undefined && { stream: query.stream }),
  };
}

export function execStreamRoutes(app: App, context: NativeContext): void {
  const { execs } = context.services;

  app.post(
    "/sessions/:id/exec/stream",
    {
      config: { stream: true, body: "content" },
      schema: {
        tags,
        summary: "Run a command and stream its output",
        description,
        headers: idempotencyHeaders,
        params: sessionParams,
        body: execRequestSchema,
        response: { ...events, ...errors(EXEC_ERRORS) },
      },
    },
    async (request, reply) => {
      const { body, caller, params } = request;
      const options = startOptions(body, {
        outputBudgetBytes: context.outputBudgetBytes,
        idempotencyKey: request.headers["idempotency-key"],
      });
      const exec = await execs.start(caller, params.id, options, request.trace);
      if (body.on_disconnect === "cancel") cancelWhenGone(context, reply, exec);
      await follow(reply, exec, { cursor: 0, raw: body.raw_output === true });
    },
  );

  app.get(
    "/sessions/:id/execs/:eid/stream",
    {
      config: { stream: true },
      schema: {
        tags,
        summary: "Stream a command's output from a cursor",
        description: `${description} The header \`Last-Event-ID\` takes precedence over \`cursor\`. With \`until=closed\`, the stream continues after the command has ended, until no background process of it can print more.`,
        headers: z.looseObject({ "last-event-id": countInQuery.optional() }),
        params: execParams,
        querystring: followOutputQuery,
        response: { ...events, ...errors(KNOWN_EXEC_ERRORS) },
      },
    },
    async (request, reply) => {
      const { caller, params, query } = request;
      const exec = await execs.get(caller, params.id, params.eid);
      const last = request.raw.headers["last-event-id"];
      const cursor = typeof last === "string" ? Number(last) : (query.cursor ?? 0);
      await follow(reply, exec, { cursor, raw: query.raw === true, ...chosen(query) });
    },
  );

  async function follow(reply: FastifyReply, exec: ExecHandle, from: Followed): Promise<void> {
    await EventStream.serve(
      reply,
      context,
      async (stream) => {
        await sendOutput(stream, exec, from);
        await sendEnd(stream, exec);
      },
      { "X-Exec-Id": exec.id },
    );
  }
}

async function sendOutput(stream: EventStream, exec: ExecHandle, from: Followed): Promise<void> {
  const { cursor: offset, raw, ...rest } = from;
  const text = new TextChunks({ raw });
  const texts = new TextEvents();
  for await (const page of exec.follow({
    ...rest,
    offset,
    signal: stream.signal,
    reusesMemory: true,
  })) {
    if (page.skippedBytes > 0) {
      text.forget();
      const end = page.chunks[0]?.offset ?? page.nextOffset;
      const gap = { skipped_bytes: page.skippedBytes, offset: end - page.skippedBytes };
      await stream.send("skipped", gap, String(end));
    }
    await sendChunks(stream, text, texts, page.chunks);
  }
  for (const { body, cursor } of text.flush()) await stream.send("chunk", body, String(cursor));
}

async function sendChunks(
  stream: EventStream,
  text: TextChunks,
  texts: TextEvents,
  chunks: readonly JournalChunk[],
): Promise<void> {
  const pageBytes = chunks.reduce((sum, { bytes }) => sum + bytes.length, 0);
  for (const chunk of chunks)
    for (const piece of piecesOf(chunk, PLAIN_PIECE_BYTES)) {
      const pays = texts.begun || pageBytes >= LARGE_PAGE_BYTES;
      const isLong = piece.bytes.length >= LONG_BYTES;
      const plain = pays && isLong && text.isPlain(piece) ? plainEvent(piece) : undefined;
      if (plain !== undefined && texts.add(plain)) continue;
      if (texts.encoded.length > 0) {
        await stream.sendTexts(texts);
        if (plain !== undefined && texts.add(plain)) continue;
      }
      // Not plain, or too long with its escapes.
      for (const part of piecesOf(piece, ANY_PIECE_BYTES)) {
        const added = text.add(part);
        if (added !== undefined) await stream.send("chunk", added.body, String(added.cursor));
      }
    }
  if (texts.encoded.length > 0) await stream.sendTexts(texts);
}

/** The same as TextChunks makes of it. */
function plainEvent({ bytes, timestampMs, seq, stream, offset }: JournalChunk): TextEvent {
  return {
    event: "chunk",
    id: String(offset + bytes.length),
    field: "chunk",
    text: bytes,
    rest: { timestamp: timestampMs, seq, stream, offset },
  };
}

async function sendEnd(stream: EventStream, exec: ExecHandle): Promise<void> {
  const row = await exec.wait();
  const info = await execInfo(exec, row);
  const error = endError(row, info);
  if (error === undefined) await stream.send("done", info);
  else await stream.send("error", { error: error.message, error_code: error.code, exec: info });
}
