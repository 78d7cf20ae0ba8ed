/** Authenticates requests, before anything but their head is read. */
import type { FastifyReply, FastifyRequest } from "fastify";
import { SandboxError } from "@sandkasten/protocol";
import { keyOf, PTY_SUBPROTOCOL } from "../http/admission/credentials.ts";
import type { Caller } from "../../sessions/services/caller.ts";
import type { RouteAccess } from "../http/admission/credentials.ts";
import type { KeyRing } from "../http/admission/keys.ts";
import type { OpenRequests } from "../http/admission/open-requests.ts";
import { requireScope } from "../http/admission/scopes.ts";
import type { PeerTokens } from "../peers/peer-token.ts";
import { isSameOrigin } from "../http/admission/origins.ts";
import type { KnownHosts } from "../http/admission/origins.ts";
import type { Tokens } from "../../keys/tokens.ts";
import { PreviewAdmission } from "../preview/preview-admission.ts";
import type { Previews } from "../preview/previews.ts";
import { asksForUpgrade } from "../http/connection/upgrades.ts";

const ALLOWED_METHODS = "GET, HEAD, POST, PUT, DELETE";
const ALLOWED_HEADERS =
  "Authorization, Content-Type, Idempotency-Key, Last-Event-ID, Range, If-Range, If-Match, If-None-Match, X-Request-ID, Traceparent, Tracestate";
const EXPOSED_HEADERS =
  "X-Request-ID, X-Next-Cursor, X-Exec-Id, ETag, Accept-Ranges, Content-Range, Content-Disposition, Retry-After, X-Sandkasten-Ignored, X-Sandkasten-Real-Path, X-Sandkasten-Unreadable, X-Sandkasten-Unreadable-Paths";
/** At most one of each, since it would be unclear which of two counts. */
const SINGLE_HEADERS: ReadonlySet<string> = new Set(["authorization", "host", "origin"]);

export interface AdmissionParts {
  /** Absent if no other daemon forwards requests to this one. */
  readonly peers?: PeerTokens | undefined;
  readonly keys: KeyRing;
  readonly open: OpenRequests;
  /** Of a configured issuer. */
  readonly tokens?: Tokens | undefined;
  readonly previews: Previews;
  readonly hosts: KnownHosts;
  readonly allowedOrigins: ReadonlySet<string>;
}

export class NativeAdmission {
  readonly #parts: AdmissionParts;
  readonly #previews: PreviewAdmission;

  constructor(parts: AdmissionParts) {
    this.#parts = parts;
    this.#previews = new PreviewAdmission({
      ...parts,
      accept: (request, reply, caller) => this.#accept(request, reply, caller),
    });
  }

  /**
   * Throws for a request that is not allowed; returns false for one that is already answered.
   *
   * SECURITY: this runs for every path and method, known or not, so no route can forget to check the key;
   * only routes with `access: "open"` are exempt, and those of previews accept a signed link instead
   * (threat: unauthorized access). A page of a foreign origin is refused before its key is checked, and
   * learns nothing (threat: foreign web pages). Guarded by admission.test.ts.
   */
  admit(request: FastifyRequest, reply: FastifyReply): boolean {
    const { access } = request.routeOptions.config;
    const { method, originalUrl: url, raw } = request;
    const forwarded = this.#parts.peers?.read(raw, { method, url });
    request.isForwarded = forwarded !== undefined;
    request.forwardedCaller = forwarded?.caller;
    if (access === "open") return this.#admitToOpen(request, reply);
    if (access !== "preview") return this.#admitCaller(request, reply, access);
    const own = asksForUpgrade(request.raw) ? "socket" : undefined;
    return this.#previews.admit(request, reply, () => this.#admitCaller(request, reply, own));
  }

  /** Verifies a token beforehand, since the other checks are synchronous. */
  prepare({ raw, routeOptions }: FastifyRequest): Promise<void> | undefined {
    const { tokens } = this.#parts;
    if (tokens === undefined || routeOptions.config.access === "open") return undefined;
    const own = asksForUpgrade(raw) ? "socket" : routeOptions.config.access;
    const key = keyOf(raw.headers, own);
    return key !== undefined && tokens.looksLikeToken(key) ? tokens.check(key) : undefined;
  }

  #admitCaller(
    request: FastifyRequest,
    reply: FastifyReply,
    access: RouteAccess | undefined,
  ): boolean {
    const { raw } = request;
    const repeated = repeatedHeader(raw.rawHeaders);
    if (repeated === "authorization") throw unauthorized(reply, access);
    const isKnown = request.isForwarded || this.#parts.hosts.includes(raw);
    if (repeated !== undefined || !isKnown)
      throw refused(
        "the Host header is not a known name of this daemon; add it to http.allowed_hosts",
      );
    const { origin } = raw.headers;
    if (origin !== undefined && !this.#admitOrigin(origin, request, reply)) return false;
    // The forwarding daemon has checked the key; its permissions are checked here as well.
    const key = request.forwardedCaller === undefined ? keyOf(raw.headers, access) : undefined;
    const caller =
      request.forwardedCaller ?? (key === undefined ? undefined : this.#parts.keys.find(key));
    if (caller === undefined) throw unauthorized(reply, access);
    this.#accept(request, reply, caller);
    request.caller = caller;
    forgetKey(request);
    return true;
  }

  #accept(request: FastifyRequest, reply: FastifyReply, caller: Caller): void {
    if (!request.is404) requireScope(request, caller);
    this.#parts.open.hold(request, reply, caller);
  }

  /** Any client may ask, and pages of allowed origins may read the response. */
  #admitToOpen(request: FastifyRequest, reply: FastifyReply): boolean {
    const { origin } = request.raw.headers;
    const isAllowed = origin !== undefined && this.#parts.allowedOrigins.has(origin);
    return !isAllowed || this.#admitOrigin(origin, request, reply);
  }

  #admitOrigin(origin: string, request: FastifyRequest, reply: FastifyReply): boolean {
    const { headers, method } = request.raw;
    if (isSameOrigin(origin, headers.host)) return true;
    if (!this.#parts.allowedOrigins.has(origin))
      throw refused("pages of this origin may not use the daemon; add it to http.allowed_origins");
    reply.header("Access-Control-Allow-Origin", origin);
    reply.header("Access-Control-Expose-Headers", EXPOSED_HEADERS);
    reply.header("Vary", "Origin");
    // A preflight request: the browser asks without the key whether it may send it.
    if (method !== "OPTIONS" || headers["access-control-request-method"] === undefined) return true;
    reply.header("Access-Control-Allow-Methods", ALLOWED_METHODS);
    reply.header("Access-Control-Allow-Headers", ALLOWED_HEADERS);
    reply.header("Access-Control-Max-Age", "600");
    reply.code(204).send();
    return false;
  }
}

/**
 * SECURITY: after the check the key is removed from the request, so later code cannot write it to a
 * log. Guarded by logging.test.ts.
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
    "the key is missing or unknown; send it as `Authorization: Bearer <key>`",
  );
}
