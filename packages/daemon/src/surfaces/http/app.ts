/** The Fastify application that every HTTP protocol of the daemon is built on, and what it adds to Fastify's types. */
import type { IncomingMessage, Server, ServerResponse } from "node:http";
import type { FastifyInstance } from "fastify";
import type { ZodTypeProvider } from "fastify-type-provider-zod";
import type { Logger } from "pino";
import type { TraceContext } from "../../ports/telemetry.ts";
import type { Caller } from "../../sessions/services.ts";
import type { RouteAccess } from "./admission/credentials.ts";

/**
 * How a route reads its body: as JSON whatever its type is called, small or with content of files
 * and commands in it, as bytes, as a form, or not at all: then it is another server's.
 */
export type RouteBody = "json" | "content" | "bytes" | "form" | "proxied";

declare module "fastify" {
  interface FastifyRequest {
    /** Who asks; set before any handler runs, except on open routes. */
    caller: Caller;
    /** Another daemon passed it on. */
    isForwarded: boolean;
    /** For whom it was passed on; absent when a link lets it in. */
    forwardedCaller: Caller | undefined;
    /** The trace that it belongs to; the parent of what it brings about. */
    trace: TraceContext | undefined;
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
