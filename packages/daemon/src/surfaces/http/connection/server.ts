/** The server: how it accepts requests, and its timeouts. */
import type { IncomingMessage } from "node:http";
import fastify, { LogController } from "fastify";
import type { FastifyReply, FastifyRequest, FastifySchemaCompiler } from "fastify";
import type { ZodTypeProvider } from "fastify-type-provider-zod";
import type { Logger } from "pino";
import type { z } from "zod";
import { answerClientError } from "./client-error.ts";
import type { App } from "../app.ts";
import { toJson } from "../responses/large-json.ts";
import { requestIdOf } from "../request/request-id.ts";
import { PacedRequest } from "./paced-request.ts";
import { limitRequestsAhead } from "./requests-ahead.ts";
import { noteUpgrades } from "./upgrades.ts";

const DEFAULT_HEADERS_TIMEOUT_MS = 10_000;
/** Longer than any URL can be, so ids that are too long get the same response as other invalid ids. */
const MAX_PARAM_LENGTH = 65_536;

export interface ServerOptions {
  readonly log: Logger;
  readonly compileValidator: FastifySchemaCompiler<z.ZodType>;
  readonly headersTimeoutMs?: number;
  /** The path used for routing. */
  readonly routedUrl: (request: IncomingMessage) => string;
  /** Whether a request may become a WebSocket. */
  readonly mayUpgrade: (request: IncomingMessage) => boolean;
  /** Answers requests whose URL cannot be routed. */
  readonly onUnroutable: (error: Error, request: FastifyRequest, reply: FastifyReply) => void;
}

export function createServer(options: ServerOptions): App {
  const headersTimeout = options.headersTimeoutMs ?? DEFAULT_HEADERS_TIMEOUT_MS;
  const app = fastify({
    loggerInstance: options.log,
    // Each request is logged once, when it ends, without its headers and query.
    logController: new LogController({
      disableRequestLogging: true,
      requestIdLogLabel: "request_id",
    }),
    genReqId: requestIdOf,
    exposeHeadRoutes: false,
    // A stopping daemon refuses requests in the API's own format.
    return503OnClosing: false,
    routerOptions: { maxParamLength: MAX_PARAM_LENGTH },
    frameworkErrors: (error, request, reply) =>
      options.onUnroutable(
        error,
        request as unknown as FastifyRequest,
        reply as unknown as FastifyReply,
      ),
    clientErrorHandler: answerClientError,
    rewriteUrl: options.routedUrl,
    http: {
      // SECURITY: a client that sends the head of a request slowly holds a connection no longer
      // than this (threat: slow clients); bodies may take any time, as long as they make progress.
      // Guarded by server.test.ts.
      headersTimeout,
      requestTimeout: 0,
      connectionsCheckingInterval: Math.max(100, headersTimeout / 5),
      // Admission refuses requests without a host, in the API's own format.
      requireHostHeader: false,
      keepAlive: true,
      shouldUpgradeCallback: options.mayUpgrade,
      IncomingMessage: PacedRequest,
    },
  }).withTypeProvider<ZodTypeProvider>();
  noteUpgrades(app.server);
  const route = limitRequestsAhead((request, response) => app.routing(request, response));
  // Requests with `Expect` are routed like all others, so the key is checked first.
  app.server
    .removeAllListeners("request")
    .on("request", route)
    .on("checkContinue", route)
    .on("checkExpectation", route);
  app.setValidatorCompiler(options.compileValidator);
  // Responses are typed, and tests check them against their schemas; checking each would cost more
  // than serializing it.
  app.setSerializerCompiler(() => toJson);
  return app;
}
