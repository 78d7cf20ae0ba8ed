/** Commands as streams of events: run and followed, or followed again from where a reader was. */
import { countInQuery, execRequestSchema, flagInQuery } from "@sandkasten/protocol";
import type { FastifyReply } from "fastify";
import { z } from "zod";
import type { ExecRow } from "../../ports/session-store.ts";
import type { Caller } from "../../sessions/services.ts";
import {
  answerOf,
  errors,
  EXEC_ERRORS,
  idempotencyHeaders,
  KNOWN_EXEC_ERRORS,
} from "../answers.ts";
import { endError } from "../bodies/exec-body.ts";
import { startOptions } from "../bodies/exec-request.ts";
import type { App, HttpContext } from "../context.ts";
import { EventStream } from "../event-stream.ts";
import { TextChunks } from "../text-chunks.ts";
import { execInfo } from "./execs.ts";
import { execParams, sessionParams } from "./params.ts";

const tags = ["commands"];
const description = [
  "`chunk` events have `chunk`, `timestamp`, `seq`, `stream` and `offset`; their `id` is the cursor to go on from.",
  "The last event is `done` with the command, or `error` with `error` (a sentence) and `error_code`.",
  "`skipped` says how many bytes are gone. The header `X-Exec-Id` names the command.",
].join(" ");
const events = answerOf(200, "text/event-stream", "Events as they happen");

interface Followed {
  readonly row: ExecRow;
  readonly cursor: number;
  readonly raw: boolean;
}

export function execStreamRoutes(app: App, context: HttpContext): void {
  const { execs } = context.services;

  app.post(
    "/sessions/:id/exec/stream",
    {
      config: { stream: true },
      schema: {
        tags,
        summary: "Run a command and get its output while it runs",
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
      const row = await execs.start(caller, params.id, options);
      await follow(caller, reply, { row, cursor: 0, raw: body.raw_output === true });
    },
  );

  app.get(
    "/sessions/:id/execs/:eid/stream",
    {
      config: { stream: true },
      schema: {
        tags,
        summary: "Follow a command's output from a cursor on",
        description: `${description} A header \`Last-Event-ID\` counts before \`cursor\`.`,
        headers: z.looseObject({ "last-event-id": countInQuery.optional() }),
        params: execParams,
        querystring: z.strictObject({
          cursor: countInQuery.optional(),
          raw: flagInQuery.optional(),
        }),
        response: { ...events, ...errors(KNOWN_EXEC_ERRORS) },
      },
    },
    async (request, reply) => {
      const { caller, params, query } = request;
      const row = await execs.get(caller, params.id, params.eid);
      const last = request.raw.headers["last-event-id"];
      const cursor = typeof last === "string" ? Number(last) : (query.cursor ?? 0);
      await follow(caller, reply, { row, cursor, raw: query.raw === true });
    },
  );

  async function follow(caller: Caller, reply: FastifyReply, from: Followed): Promise<void> {
    await EventStream.serve(
      reply,
      context,
      async (stream) => {
        await sendOutput(stream, caller, from);
        await sendEnd(stream, caller, from.row);
      },
      { "X-Exec-Id": from.row.id },
    );
  }

  async function sendOutput(stream: EventStream, caller: Caller, from: Followed): Promise<void> {
    const { sessionId, id } = from.row;
    const text = new TextChunks({ raw: from.raw });
    for await (const page of execs.follow(caller, sessionId, id, from.cursor, stream.signal)) {
      if (page.skippedBytes > 0) {
        text.forget();
        await stream.send("skipped", { skipped_bytes: page.skippedBytes });
      }
      for (const chunk of page.chunks) {
        const added = text.add(chunk);
        if (added !== undefined) await stream.send("chunk", added.body, String(added.cursor));
      }
    }
    for (const { body, cursor } of text.flush()) await stream.send("chunk", body, String(cursor));
  }

  async function sendEnd(
    stream: EventStream,
    caller: Caller,
    { sessionId, id }: ExecRow,
  ): Promise<void> {
    const row = await execs.wait(caller, sessionId, id);
    const info = await execInfo(context, caller, row);
    const error = endError(row, info);
    if (error === undefined) await stream.send("done", info);
    else await stream.send("error", { error: error.message, error_code: error.code, exec: info });
  }
}
