/** Networks of sessions: their rules, and their connections. */
import {
  changeNetworkSchema,
  countInQuery,
  egressPageSchema,
  egressQuery,
  sessionSchema,
} from "@sandkasten/protocol";
import { z } from "zod";
import type { App } from "../../http/app.ts";
import { EventStream } from "../../http/responses/event-stream.ts";
import { changedNetwork, egressPageBody, egressRecordBody } from "../bodies/network-body.ts";
import { sessionBody } from "../bodies/session-body.ts";
import type { NativeContext } from "../context.ts";
import { answerOf, errors, LIVING_ERRORS } from "../openapi/documented-responses.ts";
import { sessionParams } from "./params.ts";

const tags = ["networks"];
const DEFAULT_PAGE_SIZE = 100;

export function networkRoutes(app: App, context: NativeContext): void {
  const { networks } = context.services;

  app.put(
    "/sessions/:id/network",
    {
      schema: {
        tags,
        summary: "Change which hosts a session can connect to",
        description:
          "Connections that the new rules do not allow are closed. A session that was created with the network `none` cannot get one later; create it with an empty `allow` instead.",
        params: sessionParams,
        body: changeNetworkSchema,
        response: { 200: sessionSchema, ...errors(LIVING_ERRORS, "UNSUPPORTED") },
      },
    },
    async ({ caller, params, body }) =>
      sessionBody(await networks.change(caller, params.id, changedNetwork(body))),
  );

  app.get(
    "/sessions/:id/egress",
    {
      schema: {
        tags,
        summary: "List a session's outbound connections, including refused ones",
        description:
          "The oldest first, page by page with `cursor`. The newest records of a session are kept, about 1 MiB of them, until some time after its end.",
        params: sessionParams,
        querystring: egressQuery,
        response: { 200: egressPageSchema, ...errors("SESSION_NOT_FOUND") },
      },
    },
    async ({ caller, params, query }) =>
      egressPageBody(
        await networks.egress(caller, params.id, {
          after: query.cursor ?? 0,
          limit: query.limit ?? DEFAULT_PAGE_SIZE,
        }),
      ),
  );

  app.get(
    "/sessions/:id/egress/stream",
    {
      exposeHeadRoute: false,
      config: { stream: true },
      schema: {
        tags,
        summary: "Stream a session's outbound connections as they end",
        description:
          "`connection` events have the fields of a record in the list; their `id` is the cursor to continue from, as `cursor` or in the header `Last-Event-ID`. `missing` has the number of records that are no longer kept.",
        headers: z.looseObject({ "last-event-id": countInQuery.optional() }),
        params: sessionParams,
        querystring: egressQuery.pick({ cursor: true }),
        response: {
          ...answerOf(200, "text/event-stream", "Connections as they end"),
          ...errors("SESSION_NOT_FOUND"),
        },
      },
    },
    async (request, reply) => {
      const { caller, params, query } = request;
      // A missing session is an error response, not an event.
      await context.services.sessions.get(caller, params.id);
      const last = request.raw.headers["last-event-id"];
      const after = typeof last === "string" ? Number(last) : (query.cursor ?? 0);
      await EventStream.serve(reply, context, async (stream) => {
        for await (const page of networks.follow(caller, params.id, after, stream.signal)) {
          if (page.missing > 0) await stream.send("missing", { missing: page.missing });
          for (const record of page.records)
            await stream.send("connection", egressRecordBody(record), String(record.sequence));
        }
      });
    },
  );
}
