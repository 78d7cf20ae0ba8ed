/** Decides who gets in, before anything of a request but its head is looked at. */
import type { FastifyReply, FastifyRequest } from "fastify";
import { SandboxError } from "@sandkasten/protocol";
import { keyOf, PTY_SUBPROTOCOL } from "./credentials.ts";
import type { RouteAccess } from "./credentials.ts";
import type { KeyRing } from "./keys.ts";
import { isSameOrigin } from "./origins.ts";
import type { KnownHosts } from "./origins.ts";
import { PreviewGate } from "./preview/preview-gate.ts";
import type { Previews } from "./preview/previews.ts";
import { asksForUpgrade } from "./upgrades.ts";

const ALLOWED_METHODS = "GET, HEAD, POST, PUT, DELETE";
const ALLOWED_HEADERS =
  "Authorization, Content-Type, Idempotency-Key, Last-Event-ID, Range, If-Range, X-Request-ID";
const EXPOSED_HEADERS =
  "X-Request-ID, X-Next-Cursor, X-Exec-Id, ETag, Content-Range, Content-Disposition, Retry-After, X-Sandkasten-Ignored";
/** One of each at most; which of two counts would be a matter of taste. */
const SINGLE_HEADERS: ReadonlySet<string> = new Set(["authorization", "host", "origin"]);

export interface GateParts {
  readonly keys: KeyRing;
  readonly previews: Previews;
  readonly hosts: KnownHosts;
  readonly allowedOrigins: ReadonlySet<string>;
}

export class Gate {
  readonly #parts: GateParts;
  readonly #previews: PreviewGate;

  constructor(parts: GateParts) {
    this.#parts = parts;
    this.#previews = new PreviewGate(parts);
  }

  /**
   * Throws for a request that must not get in; answers false for one that is answered already.
   *
   * SECURITY: this runs for every path and method, known or not, so that a route that forgets about
   * keys cannot exist; only routes that say `access: "open"` are spared, and those of previews take a
   * signed link instead (threat 49). A page of a
   * foreign origin is refused before its key is looked at, and learns nothing (threat 56). Guarded
   * by gate.test.ts.
   */
  admit(request: FastifyRequest, reply: FastifyReply): boolean {
    const { access } = request.routeOptions.config;
    if (access === "open") return this.#admitToOpen(request, reply);
    if (access !== "preview") return this.#admitCaller(request, reply, access);
    const own = asksForUpgrade(request.raw) ? "socket" : undefined;
    return this.#previews.admit(request, reply, () => this.#admitCaller(request, reply, own));
  }

  #admitCaller(
    request: FastifyRequest,
    reply: FastifyReply,
    access: RouteAccess | undefined,
  ): boolean {
    const { raw } = request;
    const repeated = repeatedHeader(raw.rawHeaders);
    if (repeated === "authorization") throw unauthorized(reply, access);
    if (repeated !== undefined || !this.#parts.hosts.includes(raw))
      throw refused("the Host header names no host of this daemon; add it to the allowed hosts");
    const { origin } = raw.headers;
    if (origin !== undefined && !this.#admitOrigin(origin, request, reply)) return false;
    const key = keyOf(raw.headers, access);
    const caller = key === undefined ? undefined : this.#parts.keys.find(key);
    if (caller === undefined) throw unauthorized(reply, access);
    request.caller = caller;
    forgetKey(request);
    return true;
  }

  /** Everybody may ask, and a page of an allowed origin may read the answer. */
  #admitToOpen(request: FastifyRequest, reply: FastifyReply): boolean {
    const { origin } = request.raw.headers;
    const isAllowed = origin !== undefined && this.#parts.allowedOrigins.has(origin);
    return !isAllowed || this.#admitOrigin(origin, request, reply);
  }

  #admitOrigin(origin: string, request: FastifyRequest, reply: FastifyReply): boolean {
    const { headers, method } = request.raw;
    if (isSameOrigin(origin, headers.host)) return true;
    if (!this.#parts.allowedOrigins.has(origin))
      throw refused("pages of this origin may not use the daemon; add it to the allowed origins");
    reply.header("Access-Control-Allow-Origin", origin);
    reply.header("Access-Control-Expose-Headers", EXPOSED_HEADERS);
    reply.header("Vary", "Origin");
    // A browser asks without the key whether it may send it.
    if (method !== "OPTIONS" || headers["access-control-request-method"] === undefined) return true;
    reply.header("Access-Control-Allow-Methods", ALLOWED_METHODS);
    reply.header("Access-Control-Allow-Headers", ALLOWED_HEADERS);
    reply.header("Access-Control-Max-Age", "600");
    reply.code(204).send();
    return false;
  }
}

/**
 * SECURITY: once it was checked the key is taken out of the request, so that nothing that handles
 * it later can write it to a log. Guarded by logging.test.ts.
 */
function forgetKey({ raw: { headers } }: FastifyRequest): void {
  if (headers.authorization !== undefined) headers.authorization = "";
  if (headers["sec-websocket-protocol"] !== undefined)
    headers["sec-websocket-protocol"] = PTY_SUBPROTOCOL;
}

function repeatedHeader(rawHeaders: readonly string[]): string | undefined {
  let seen = "";
  for (let index = 0; index < rawHeaders.length; index += 2) {
    const name = (rawHeaders[index] ?? "").toLowerCase();
    if (!SINGLE_HEADERS.has(name)) continue;
    if (seen.includes(name)) return name;
    seen += name;
  }
  return undefined;
}

function refused(message: string): SandboxError {
  return new SandboxError("PERMISSION_DENIED", message);
}

function unauthorized(reply: FastifyReply, access: RouteAccess | undefined): SandboxError {
  reply.header(
    "WWW-Authenticate",
    access === "browser" ? 'Basic realm="sandkasten", charset="UTF-8"' : "Bearer",
  );
  return new SandboxError(
    "UNAUTHORIZED",
    "the key is missing or not known; send it as `Authorization: Bearer <key>`",
  );
}
