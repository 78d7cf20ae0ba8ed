/** What a key's scope allows, on every route. */
import type { FastifyRequest } from "fastify";
import { SandboxError } from "@sandkasten/protocol";
import type { Caller } from "../../../sessions/services/caller.ts";

const LOOKING: ReadonlySet<string> = new Set(["GET", "HEAD"]);

/**
 * SECURITY: a key with the read scope changes nothing. This is enforced here for all routes,
 * including future ones: only GET and HEAD are allowed, and neither sockets nor an application's
 * pages, since their effects are unknown. Guarded by scopes.test.ts, over every route of the
 * document.
 */
export function requireScope({ method, routeOptions }: FastifyRequest, caller: Caller): void {
  if (caller.isReadOnly !== true) return;
  const { access } = routeOptions.config;
  if (LOOKING.has(method) && access !== "socket" && access !== "preview") return;
  throw new SandboxError(
    "FORBIDDEN",
    "this key has the read scope, which cannot make changes; use a key with the use scope",
  );
}
