/** The HTTP app of the agent service: admission, JSON bodies, the error format, and modules of routes. */
import { randomUUID } from "node:crypto";
import fastify, { LogController } from "fastify";
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import type { Logger } from "pino";
import { JSON_SHAPE, shapeProblem } from "../json-shape.ts";
import { Admission } from "./admission.ts";
import type { AdmissionOptions } from "./admission.ts";
import { ServiceError } from "./service-error.ts";

/** Adds the routes of one part of the service. */
export type RouteModule = (app: FastifyInstance) => void;

export interface ServiceOptions extends AdmissionOptions {
  readonly modules: readonly RouteModule[];
  readonly log: Logger;
  /** How long the head of a request may take. */
  readonly headersTimeoutMs?: number | undefined;
}

/** Needs no key, and reveals nothing that is worth one. */
const OPEN_ROUTES: ReadonlySet<string> = new Set(["/healthz"]);
const MAX_BODY_BYTES = 16 * 1024 * 1024;
const MAX_PARAM_LENGTH = 1024;
const DEFAULT_HEADERS_TIMEOUT_MS = 10_000;
/** How long a body may take to arrive. */
const REQUEST_TIMEOUT_MS = 120_000;

export function buildService(options: ServiceOptions): FastifyInstance {
  const {
    modules,
    log,
    headersTimeoutMs = DEFAULT_HEADERS_TIMEOUT_MS,
    ...admissionOptions
  } = options;
  const admission = new Admission(admissionOptions);
  const app = fastify({
    loggerInstance: log,
    logController: new LogController({
      disableRequestLogging: true,
      requestIdLogLabel: "request_id",
    }),
    genReqId: ({ headers: { "x-request-id": given } }) =>
      typeof given === "string" && /^[A-Za-z0-9._-]{1,128}$/.test(given) ? given : randomUUID(),
    bodyLimit: MAX_BODY_BYTES,
    return503OnClosing: false,
    forceCloseConnections: true,
    routerOptions: { maxParamLength: MAX_PARAM_LENGTH },
    frameworkErrors: (error, request, reply) =>
      fail(error, request as unknown as FastifyRequest, reply as unknown as FastifyReply),
    http: {
      // SECURITY: a client that sends slowly holds a connection only for a limited time. Guarded by
      // service.test.ts.
      headersTimeout: headersTimeoutMs,
      requestTimeout: REQUEST_TIMEOUT_MS,
      connectionsCheckingInterval: Math.max(100, headersTimeoutMs / 5),
      requireHostHeader: false,
    },
  }) as unknown as FastifyInstance;
  app.addHook("onRequest", (request, reply, done) => {
    reply.headers({
      "X-Request-ID": request.id,
      "X-Content-Type-Options": "nosniff",
      "Cache-Control": "no-store",
    });
    try {
      admission.admit(
        request.raw,
        OPEN_ROUTES.has(request.routeOptions.url ?? "") ? "open" : "key",
      );
      if (request.is404) throw noRoute();
      done();
    } catch (error) {
      done(error as Error);
    }
  });
  acceptOnlyJson(app);
  app.setErrorHandler(fail);
  app.setNotFoundHandler((_request, reply) => reply.send(noRoute()));
  app.get("/healthz", () => ({ status: "ok" }));
  for (const register of modules) register(app);
  return app;
}

/**
 * SECURITY: a page can send forms and text to any address without a preflight; only JSON makes a
 * browser send one, and `Admission` refuses it. Guarded by service.test.ts.
 */
function acceptOnlyJson(app: FastifyInstance): void {
  app.removeContentTypeParser(["text/plain", "application/json"]);
  const parse = app.getDefaultJsonParser("error", "error");
  // SECURITY: a body of a few megabytes can hold millions of values, and all other requests would
  // wait while they are parsed, checked and copied. Guarded by service.test.ts.
  app.addContentTypeParser("application/json", { parseAs: "string" }, (request, body, done) => {
    const problem = shapeProblem(String(body), JSON_SHAPE);
    if (problem === undefined) void parse(request, String(body), done);
    else done(new ServiceError("INVALID_REQUEST", `The body is ${problem}.`));
  });
  app.addContentTypeParser("*", (_request, _payload, done) => {
    done(
      new ServiceError(
        "UNSUPPORTED_MEDIA_TYPE",
        "The body must be JSON (Content-Type: application/json).",
      ),
    );
  });
}

function fail(error: unknown, request: FastifyRequest, reply: FastifyReply): void {
  const known = error instanceof ServiceError ? error : fromFramework(error);
  // SECURITY: errors that were not written for clients stay in the log: no stack, path or query
  // leaves.
  if (known === undefined) request.log.error({ err: error }, "a request failed");
  const { code, status, message, details } =
    known ??
    new ServiceError(
      "INTERNAL_ERROR",
      `The service failed. Its log has the cause under the request id ${request.id}.`,
    );
  if (status === 401) reply.header("WWW-Authenticate", "Bearer");
  reply.code(status).send({
    error_code: code,
    message,
    ...(details !== undefined && { details }),
    request_id: request.id,
  });
}

/** Why Fastify refuses a request. */
function fromFramework(error: unknown): ServiceError | undefined {
  if (!(error instanceof Error) || !("code" in error) || !("statusCode" in error)) return undefined;
  const { code, statusCode } = error;
  if (code === "ECONNRESET" && statusCode === 400)
    return new ServiceError(
      "INVALID_REQUEST",
      "The connection closed before the body was complete.",
    );
  if (typeof code !== "string" || !code.startsWith("FST_")) return undefined;
  if (statusCode === 413)
    return new ServiceError(
      "PAYLOAD_TOO_LARGE",
      `The body exceeds the limit of ${MAX_BODY_BYTES} bytes.`,
    );
  if (typeof statusCode !== "number" || statusCode < 400 || statusCode > 499) return undefined;
  return new ServiceError(
    "INVALID_REQUEST",
    code === "FST_ERR_CTP_INVALID_JSON_BODY" || code === "FST_ERR_CTP_EMPTY_JSON_BODY"
      ? "The body is not valid JSON."
      : "The request is malformed.",
  );
}

function noRoute(): ServiceError {
  return new ServiceError("ROUTE_NOT_FOUND", "This service has no route for this path and method.");
}
