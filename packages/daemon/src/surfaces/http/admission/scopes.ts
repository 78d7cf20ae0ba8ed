/** What a key may do by its scope, whatever the route. */
import type { FastifyRequest } from "fastify";
import { SandboxError } from "@sandkasten/protocol";
import type { Caller } from "../../../sessions/services.ts";

const LOOKING: ReadonlySet<string> = new Set(["GET", "HEAD"]);

/**
 * SECURITY: a key with the scope read changes nothing. That is decided here for all routes, those that
 * will be added included: only GET and HEAD, and neither sockets nor an application's own pages, for
 * what those do is not known. Guarded by scopes.test.ts, over every route of the document.
 */
export function requireScope({ method, routeOptions }: FastifyRequest, caller: Caller): void {
  if (caller.isReadOnly !== true) return;
  const { access } = routeOptions.config;
  if (LOOKING.has(method) && access !== "socket" && access !== "preview") return;
  throw new SandboxError(
    "FORBIDDEN",
    "this key has the scope read, which only looks; use a key with the scope use for this",
  );
}
