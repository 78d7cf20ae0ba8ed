/**
 * The Fastify application that every HTTP protocol of the daemon is built on, and its additions to
 * Fastify's types.
 */
import type { IncomingMessage, Server, ServerResponse } from "node:http";
import type { FastifyInstance } from "fastify";
import type { ZodTypeProvider } from "fastify-type-provider-zod";
import type { Logger } from "pino";
import type { TraceContext } from "../../ports/telemetry.ts";
import type { Caller } from "../../sessions/services/caller.ts";
import type { RouteAccess } from "./admission/credentials.ts";

/**
 * How a route reads its body: as JSON regardless of its content type, small (`json`) or with file
 * and command content (`content`), as bytes, as a form, or not at all, because another server
 * handles it (`proxied`).
 */
export type RouteBody = "json" | "content" | "bytes" | "form" | "proxied";

declare module "fastify" {
  interface FastifyRequest {
    /** The caller; set before any handler runs, except on open routes. */
    caller: Caller;
    /** Another daemon forwarded the request. */
    isForwarded: boolean;
    /** The caller of a forwarded request; absent if a link gives access. */
    forwardedCaller: Caller | undefined;
    /** The trace that the request belongs to; the parent of what it causes. */
    trace: TraceContext | undefined;
  }
  interface FastifyInstance {
    /** Ends long-running requests and refuses new ones with 503; the daemon listens until it is closed. */
    beginShutdown(): void;
  }
  interface FastifyContextConfig {
    /** A key in the Authorization header when absent. */
    readonly access?: RouteAccess;
    /** JSON when absent. */
    readonly body?: RouteBody;
    /** Its responses last as long as the client reads, so their durations are meaningless. */
    readonly stream?: boolean;
  }
}

export type App = FastifyInstance<Server, IncomingMessage, ServerResponse, Logger, ZodTypeProvider>;

export interface HttpLimits {
  /** For a JSON body with content in it; other limits are smaller. */
  readonly maxBodyBytes: number;
  /** For a file, an archive or an image. */
  readonly maxUploadBytes: number;
}
