/** What the parts of the HTTP layer share, and what they add to Fastify's types. */
import type { IncomingMessage, Server, ServerResponse } from "node:http";
import type { FastifyInstance } from "fastify";
import type { ZodTypeProvider } from "fastify-type-provider-zod";
import type { Logger } from "pino";
import type { Caller, Services } from "../sessions/services.ts";
import type { RouteAccess } from "./credentials.ts";
import type { ErrorAnswers } from "./error-answer.ts";
import type { Preview } from "./preview/preview.ts";
import type { Previews } from "./preview/previews.ts";
import type { RequestMetrics } from "./request-metrics.ts";
import type { Shutdown } from "./shutdown.ts";

/**
 * How a route reads its body: as JSON whatever its type is called, small or with content of files
 * and commands in it, as bytes, as a form, or not at all: then it is another server's.
 */
export type RouteBody = "json" | "content" | "bytes" | "form" | "proxied";

declare module "fastify" {
  interface FastifyRequest {
    /** Who asks; set before any handler runs, except on open routes. */
    caller: Caller;
    /** What a request for a port is for; set before any handler runs, on routes of previews only. */
    preview: Preview | undefined;
  }
  interface FastifyInstance {
    /** Ends what lasts long and refuses new requests with 503; the daemon goes on listening until it is closed. */
    beginShutdown(): void;
  }
  interface FastifyContextConfig {
    /** A key in the Authorization header when absent. */
    readonly access?: RouteAccess;
    /** JSON when absent. */
    readonly body?: RouteBody;
    /** Its answers last as long as somebody listens, so that their durations say nothing. */
    readonly stream?: boolean;
  }
}

export type App = FastifyInstance<Server, IncomingMessage, ServerResponse, Logger, ZodTypeProvider>;

export interface HttpLimits {
  /** Of a JSON body with content in it; others are smaller. */
  readonly maxBodyBytes: number;
  /** Of a file, an archive or an image. */
  readonly maxUploadBytes: number;
}

export interface HttpContext {
  readonly services: Services;
  readonly limits: HttpLimits;
  readonly version: string;
  /** Names of the backends, the usual one first. */
  readonly backends: readonly [string, ...string[]];
  /** How much output a result holds when the request does not say; the core's own when absent. */
  readonly outputBudgetBytes?: number;
  /** Where images are kept while they arrive. */
  readonly uploadDir: string;
  /** How long a client may take to go on reading or writing. */
  readonly stallTimeoutMs: number;
  readonly pingIntervalMs: number;
  readonly shutdown: Shutdown;
  readonly answers: ErrorAnswers;
  readonly metrics: RequestMetrics;
  readonly previews: Previews;
}
