/** The daemon itself: health, version and metrics. */
import { healthSchema, SandboxError, versionSchema } from "@sandkasten/protocol";
import { prometheusText } from "@sandkasten/telemetry";
import { z } from "zod";
import { answerOf, errors, onlyErrors } from "../openapi/documented-responses.ts";
import type { App } from "../../http/app.ts";
import type { NativeContext } from "../context.ts";
import { openApiDocument, type OpenApiDocument } from "../openapi/openapi.ts";

/** By then a daemon that was started for one command has run it. */
const DESCRIBE_AFTER_MS = 500;
const tags = ["daemon"];
const anyObject = z.looseObject({ openapi: z.string() });

export function healthRoutes(app: App, { services, shutdown }: NativeContext): void {
  app.get(
    "/healthz",
    {
      exposeHeadRoute: true,
      config: { access: "open" },
      schema: { tags, summary: "Check that the daemon responds", response: { 200: healthSchema } },
    },
    () => ({ status: "ok" as const }),
  );

  app.get(
    "/readyz",
    {
      exposeHeadRoute: true,
      config: { access: "open" },
      schema: {
        tags,
        summary: "Check that the daemon can create sandboxes",
        response: {
          200: healthSchema,
          ...onlyErrors("SANDBOX_UNREACHABLE", "ENGINE_UNREACHABLE", "BACKEND_BUSY"),
        },
      },
    },
    async () => {
      if (shutdown.begun) throw new SandboxError("SANDBOX_UNREACHABLE", "the daemon is stopping");
      const state = await services.ready();
      if (state === "unreachable")
        throw new SandboxError(
          "ENGINE_UNREACHABLE",
          "the daemon's default backend does not respond",
        );
      if (state === "busy")
        throw new SandboxError(
          "BACKEND_BUSY",
          "the launcher does not respond, so no sandbox can be created; it is replaced if it stays frozen",
        );
      return { status: "ok" as const };
    },
  );
}

export function versionRoutes(app: App, { version, backends }: NativeContext): void {
  app.get(
    "/version",
    {
      schema: {
        tags,
        summary: "Get the daemon's version and backends",
        response: { 200: versionSchema, ...errors() },
      },
    },
    () => ({ version, backend: backends[0], backends: [...backends], node: process.version }),
  );
}

/** Below `/v1`, and at Prometheus' default path. */
export function metricsRoutes(
  app: App,
  { services, metrics }: NativeContext,
  operationId: string,
): void {
  app.get(
    "/metrics",
    {
      schema: {
        tags,
        operationId,
        summary: "Get metrics for Prometheus. Requires an administrator's key",
        response: {
          ...answerOf(200, "text/plain", "Metrics in Prometheus' text format"),
          ...errors("PERMISSION_DENIED"),
        },
      },
    },
    async ({ caller }, reply) => {
      // SECURITY: the numbers cover all owners. Guarded by daemon.test.ts.
      if (!caller.isAdmin)
        throw new SandboxError(
          "PERMISSION_DENIED",
          "Only an administrator's key can read the metrics. Ask the operator for one, or to set `telemetry.metrics_listen`.",
        );
      return reply
        .type("text/plain; version=0.0.4; charset=utf-8")
        .send(prometheusText(await metrics.families(services)));
    },
  );
}

export function documentRoutes(app: App): void {
  let described: OpenApiDocument | undefined;
  let document: string | undefined;
  let openDocument: string | undefined;
  const describe = (): OpenApiDocument => (described ??= openApiDocument(app));

  // Generating the document blocks all other requests for a moment; a client's request should not
  // cause that.
  let timer: NodeJS.Timeout | undefined;
  app.addHook("onListen", () => {
    timer = setTimeout(describe, DESCRIBE_AFTER_MS).unref();
  });
  app.addHook("onClose", () => clearTimeout(timer));

  app.get(
    "/openapi.json",
    {
      config: { access: "browser" },
      schema: {
        tags,
        summary: "Get this API as an OpenAPI 3.1 document",
        response: { ...answerOf(200, "application/json", "The document", anyObject), ...errors() },
      },
    },
    (_request, reply) => {
      document ??= JSON.stringify(describe());
      return reply.type("application/json; charset=utf-8").send(document);
    },
  );

  // SECURITY: without a key the page at /docs gets the API, which is public, but not the daemon's
  // version, which would tell attackers which exploits apply (threat: unauthorized access). Guarded
  // by openapi.test.ts.
  app.get(
    "/docs/openapi.json",
    { config: { access: "open" }, schema: { hide: true } },
    (_request, reply) => {
      const { info, ...rest } = describe();
      openDocument ??= JSON.stringify({ ...rest, info: { ...info, version: "v1" } });
      return reply.type("application/json; charset=utf-8").send(openDocument);
    },
  );
}
