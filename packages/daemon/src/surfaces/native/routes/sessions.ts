/** Sessions: made, looked at, kept alive, paused and ended. */
import {
  createSessionSchema,
  isolationSchema,
  listSessionsQuery,
  okSchema,
  renewSessionSchema,
  sessionSchema,
  statsSchema,
} from "@sandkasten/protocol";
import { z } from "zod";
import { errors, idempotencyHeaders, LIVING_ERRORS } from "../openapi/documented-responses.ts";
import {
  createOptions,
  isolationBody,
  sessionBody,
  sessionQuery,
  statsBody,
} from "../bodies/session-body.ts";
import type { App } from "../../http/app.ts";
import type { NativeContext } from "../context.ts";
import { sessionParams } from "./params.ts";

const tags = ["sessions"];

export function sessionRoutes(app: App, { services: { sessions } }: NativeContext): void {
  app.post(
    "/sessions",
    {
      schema: {
        tags,
        summary: "Make a session, or get the living one of a key",
        headers: idempotencyHeaders,
        body: createSessionSchema,
        response: {
          200: sessionSchema,
          201: sessionSchema,
          ...errors(
            "INVALID_IMAGE",
            "CONFLICT",
            "QUOTA_EXCEEDED",
            "SANDBOX_UNREACHABLE",
            "ENGINE_UNREACHABLE",
            "REGISTRY_UNREACHABLE",
            "UNSUPPORTED",
            "STORAGE_FULL",
          ),
        },
      },
    },
    async (request, reply) => {
      const options = createOptions(request.body, request.headers["idempotency-key"]);
      const { session, created } = await sessions.create(request.caller, options, request.trace);
      reply.code(created ? 201 : 200);
      return sessionBody(session);
    },
  );

  app.get(
    "/sessions",
    {
      schema: {
        tags,
        summary: "List sessions: those that have not ended first, the newest first among both",
        description:
          "A key with the scope `admin` lists the sessions of all owners, or those of one `owner`. Without `limit`, the first page has every session that has not ended. When there are more, the header `X-Next-Cursor` has the `cursor` of the next page.",
        querystring: listSessionsQuery,
        response: { 200: z.array(sessionSchema), ...errors() },
      },
    },
    async (request, reply) => {
      const page = await sessions.list(request.caller, sessionQuery(request.query));
      if (page.nextCursor !== undefined) reply.header("X-Next-Cursor", page.nextCursor);
      return page.rows.map(sessionBody);
    },
  );

  app.get(
    "/sessions/:id",
    {
      schema: {
        tags,
        summary: "Get a session, also one that has ended",
        params: sessionParams,
        response: { 200: sessionSchema, ...errors("SESSION_NOT_FOUND") },
      },
    },
    async (request) => sessionBody(await sessions.look(request.caller, request.params.id)),
  );

  app.delete(
    "/sessions/:id",
    {
      schema: {
        tags,
        summary: "Destroy a session; a second time does nothing",
        params: sessionParams,
        response: { 200: okSchema, ...errors("SESSION_NOT_FOUND") },
      },
    },
    async (request) => {
      await sessions.destroy(request.caller, request.params.id);
      return { ok: true as const };
    },
  );

  app.get(
    "/sessions/:id/stats",
    {
      schema: {
        tags,
        summary: "What a session uses, and what it may use",
        params: sessionParams,
        response: { 200: statsSchema, ...errors(LIVING_ERRORS) },
      },
    },
    async (request) => statsBody(await sessions.stats(request.caller, request.params.id)),
  );

  app.get(
    "/sessions/:id/isolation",
    {
      schema: {
        tags,
        summary: "How a session is isolated: measured, not configured",
        params: sessionParams,
        response: { 200: isolationSchema, ...errors(LIVING_ERRORS) },
      },
    },
    async (request) => isolationBody(await sessions.isolation(request.caller, request.params.id)),
  );

  for (const act of ["pause", "resume"] as const) {
    app.post(
      `/sessions/:id/${act}`,
      {
        schema: {
          tags,
          summary: act === "pause" ? "Freeze a session's processes" : "Let a paused session go on",
          params: sessionParams,
          body: z.object({}),
          response: { 200: sessionSchema, ...errors(LIVING_ERRORS, "UNSUPPORTED") },
        },
      },
      async (request) => sessionBody(await sessions[act](request.caller, request.params.id)),
    );
  }

  app.post(
    "/sessions/:id/renew",
    {
      schema: {
        tags,
        summary: "Renew a session's lease, with another time to live if wanted",
        params: sessionParams,
        body: renewSessionSchema,
        response: { 200: sessionSchema, ...errors(LIVING_ERRORS) },
      },
    },
    async (request) => {
      const { ttl_seconds: seconds } = request.body;
      const ttlMs = seconds === undefined || seconds === 0 ? undefined : seconds * 1000;
      return sessionBody(await sessions.renew(request.caller, request.params.id, ttlMs));
    },
  );
}
