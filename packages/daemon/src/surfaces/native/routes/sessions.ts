/** Creates, shows, renews, pauses and destroys sessions. */
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
        summary: "Create a session, or return the active session for a key",
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
        summary: "List sessions: active ones first, then ended ones, each newest first",
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
        summary: "Get a session, active or ended",
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
        summary: "Destroy a session. Idempotent",
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
        summary: "Get a session's resource usage and limits",
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
        summary: "Get a session's isolation report, as measured",
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
          summary:
            act === "pause" ? "Pause a session: freeze its processes" : "Resume a paused session",
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
        summary: "Renew a session, optionally with a new time to live",
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
