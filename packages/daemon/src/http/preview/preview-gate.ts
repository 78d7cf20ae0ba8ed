/** Decides who may look at a port: callers with a key, and visitors with a link to that one port. */
import type { FastifyReply, FastifyRequest } from "fastify";
import { SandboxError } from "@sandkasten/protocol";
import { keyOf } from "../credentials.ts";
import type { KeyRing } from "../keys.ts";
import { isSameOrigin } from "../origins.ts";
import type { KnownHosts } from "../origins.ts";
import { asksForUpgrade } from "../upgrades.ts";
import { PREVIEW_COOKIE } from "./forwarded-headers.ts";
import { parseProxyPath, pathOf, takeToken } from "./preview-address.ts";
import type { PortAddress, ProxyPath } from "./preview-address.ts";
import type { Previews } from "./previews.ts";

export interface PreviewGateParts {
  readonly keys: KeyRing;
  readonly hosts: KnownHosts;
  readonly previews: Pick<Previews, "addresses" | "tokens">;
}

export class PreviewGate {
  readonly #parts: PreviewGateParts;

  constructor(parts: PreviewGateParts) {
    this.#parts = parts;
  }

  /**
   * Throws for a request that must not get in; answers false for one that is answered already.
   * `admitCaller` does the API's own checks and sets the caller.
   */
  admit(request: FastifyRequest, reply: FastifyReply, admitCaller: () => boolean): boolean {
    const address = this.#parts.previews.addresses.ofHost(request.raw);
    if (address !== undefined) return this.#admitByHost(request, reply, address);
    const path = parseProxyPath(request.raw.url ?? "");
    if (path?.token !== undefined) return this.#admitByPathLink(request, reply, path, path.token);
    if (!admitCaller()) return false;
    if (path === undefined) throw noPort();
    const { caller: visitor } = request;
    request.preview = { ...byPath(path), visitor };
    return true;
  }

  #admitByHost(request: FastifyRequest, reply: FastifyReply, address: PortAddress): boolean {
    const { raw, originalUrl } = request;
    if (!originalUrl.startsWith("/"))
      throw new SandboxError("INVALID_REQUEST", "the URL of a request must begin with a slash");
    const { target, token } = takeToken(originalUrl);
    const visit = { ...address, by: "host", target, prefix: "", publicPrefix: "" } as const;
    const key = keyOf(raw.headers, asksForUpgrade(raw) ? "socket" : undefined);
    const caller = key === undefined ? undefined : this.#parts.keys.find(key);
    if (caller !== undefined) {
      requireOwnPage(request);
      request.preview = { ...visit, visitor: caller };
      return true;
    }
    const expiresAtMs =
      token === undefined ? undefined : this.#parts.previews.tokens.check(token, address);
    if (token !== undefined && expiresAtMs !== undefined) {
      if (isNavigation(request)) return this.#welcome(reply, target, token, expiresAtMs);
      request.preview = { ...visit, visitor: "link", expiresAtMs };
      return true;
    }
    const remembered = this.#cookieEnd(request, address);
    if (remembered === undefined) throw denied();
    requireOwnPage(request);
    request.preview = { ...visit, visitor: "link", expiresAtMs: remembered };
    return true;
  }

  /**
   * SECURITY: the token moves from the address to a cookie of this one host that scripts cannot read, so
   * that neither the browser's history nor a Referer tells it to others. Guarded by
   * preview-links.test.ts.
   */
  #welcome(reply: FastifyReply, target: string, token: string, expiresAtMs: number): boolean {
    const { tokens, addresses } = this.#parts.previews;
    const seconds = Math.max(1, Math.round((expiresAtMs - tokens.nowMs()) / 1000));
    const secure = addresses.isSecure ? "; Secure" : "";
    reply.header(
      "Set-Cookie",
      `${PREVIEW_COOKIE}=${token}; Path=/; Max-Age=${seconds}; HttpOnly; SameSite=Lax${secure}`,
    );
    reply.header("Referrer-Policy", "no-referrer");
    // A path that begins with two slashes would be the name of another host.
    reply.header("Location", target.replace(/^[/\\]+/, "/"));
    reply.code(303).send();
    return false;
  }

  #cookieEnd({ raw }: FastifyRequest, address: PortAddress): number | undefined {
    for (const cookie of (raw.headers.cookie ?? "").split(";")) {
      const [name = "", value = ""] = cookie.split("=", 2);
      // Another page may have put one beside ours; any that is good will do.
      if (name.trim() !== PREVIEW_COOKIE) continue;
      const end = this.#parts.previews.tokens.check(value.trim(), address);
      if (end !== undefined) return end;
    }
    return undefined;
  }

  #admitByPathLink(
    request: FastifyRequest,
    reply: FastifyReply,
    path: ProxyPath,
    token: string,
  ): boolean {
    const { hosts, previews } = this.#parts;
    const { raw } = request;
    if (!hosts.includes(raw))
      throw new SandboxError("PERMISSION_DENIED", "the Host header names no host of this daemon");
    const expiresAtMs = previews.tokens.check(token, path);
    if (expiresAtMs === undefined) throw denied();
    if (isPreflight(request)) {
      reply.header("Access-Control-Allow-Origin", "*");
      reply.header(
        "Access-Control-Allow-Methods",
        raw.headers["access-control-request-method"] ?? "",
      );
      const asked = raw.headers["access-control-request-headers"];
      if (asked !== undefined) reply.header("Access-Control-Allow-Headers", asked);
      reply.code(204).send();
      return false;
    }
    request.preview = { ...byPath(path), visitor: "link", expiresAtMs };
    return true;
  }
}

function byPath(path: ProxyPath) {
  const { sessionId, port, prefix, target } = path;
  return { sessionId, port, by: "path", prefix, target, publicPrefix: pathOf(path) } as const;
}

/**
 * SECURITY: a browser sends the cookie with requests that other pages cause, too: other previews are of
 * the same site when they share a domain. Only the page itself, and a visitor who follows a link to it,
 * count. Guarded by preview-links.test.ts.
 */
function requireOwnPage({ raw: { headers, method } }: FastifyRequest): void {
  const { origin, host, "sec-fetch-site": site, "sec-fetch-mode": mode } = headers;
  const isForeignOrigin = origin !== undefined && !isSameOrigin(origin, host);
  const isOwn = site === undefined || site === "same-origin" || site === "none";
  const isVisit = mode === "navigate" && (method === "GET" || method === "HEAD");
  if (isForeignOrigin || (!isOwn && !isVisit))
    throw new SandboxError(
      "PERMISSION_DENIED",
      "the page of another origin may not use this preview",
    );
}

/** A browser that opens a page, as opposed to a program that fetches it. */
function isNavigation({ raw }: FastifyRequest): boolean {
  const { headers, method } = raw;
  if ((method !== "GET" && method !== "HEAD") || asksForUpgrade(raw)) return false;
  const mode = headers["sec-fetch-mode"];
  return mode === undefined ? (headers.accept ?? "").includes("text/html") : mode === "navigate";
}

function isPreflight({ raw: { headers, method } }: FastifyRequest): boolean {
  return method === "OPTIONS" && headers["access-control-request-method"] !== undefined;
}

function denied(): SandboxError {
  return new SandboxError(
    "PREVIEW_DENIED",
    "This preview link is missing, has expired, or is for another port. Ask the owner of the session for a new one.",
  );
}

function noPort(): SandboxError {
  return new SandboxError("INVALID_REQUEST", "invalid path: `port` must be a port from 1 to 65535");
}
