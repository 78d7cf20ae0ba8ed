/** Decides who may access a port: callers with a key, and visitors with a link to that port. */
import type { FastifyReply, FastifyRequest } from "fastify";
import { SandboxError } from "@sandkasten/protocol";
import { keyOf } from "../http/admission/credentials.ts";
import type { Caller } from "../../sessions/services/caller.ts";
import type { KeyRing } from "../http/admission/keys.ts";
import { isSameOrigin } from "../http/admission/origins.ts";
import type { KnownHosts } from "../http/admission/origins.ts";
import { asksForUpgrade } from "../http/connection/upgrades.ts";
import { PREVIEW_COOKIE } from "./forwarded-headers.ts";
import { parseProxyPath, pathOf, takeToken } from "./preview-address.ts";
import type { PortAddress, ProxyPath } from "./preview-address.ts";
import type { PreviewLink } from "./preview-token.ts";
import type { Previews } from "./previews.ts";

export interface PreviewAdmissionParts {
  readonly keys: KeyRing;
  /** Further steps for a request with a key. */
  readonly accept: (request: FastifyRequest, reply: FastifyReply, caller: Caller) => void;
  readonly hosts: KnownHosts;
  readonly previews: Pick<Previews, "addresses" | "tokens">;
}

/** A request with a valid link. */
interface Welcome {
  readonly target: string;
  readonly token: string;
  readonly expiresAtMs: number;
}

export class PreviewAdmission {
  readonly #parts: PreviewAdmissionParts;

  constructor(parts: PreviewAdmissionParts) {
    this.#parts = parts;
  }

  /**
   * Throws for a request that is not allowed; returns false for one that is already answered.
   * `admitCaller` runs the API's own checks and sets the caller.
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
    const preview = { ...address, by: "host", target, prefix: "", publicPrefix: "" } as const;
    const key = keyOf(raw.headers, asksForUpgrade(raw) ? "socket" : undefined);
    const caller =
      request.forwardedCaller ?? (key === undefined ? undefined : this.#parts.keys.find(key));
    if (caller !== undefined) {
      requireOwnPage(request);
      this.#parts.accept(request, reply, caller);
      request.preview = { ...preview, visitor: caller };
      return true;
    }
    const link =
      token === undefined ? undefined : this.#parts.previews.tokens.check(token, address);
    if (token !== undefined && link !== undefined) {
      if (isNavigation(request))
        return this.#welcome(request, reply, { target, token, expiresAtMs: link.expiresAtMs });
      request.preview = { ...preview, visitor: "link", link };
      return true;
    }
    const remembered = this.#linkInCookie(request, address);
    if (remembered === undefined) throw denied();
    requireOwnPage(request);
    request.preview = { ...preview, visitor: "link", link: remembered };
    return true;
  }

  /**
   * SECURITY: the token moves from the URL to a cookie of this one host that scripts cannot read,
   * so neither the browser's history nor a Referer reveals it. Guarded by preview-links.test.ts.
   */
  #welcome(
    request: FastifyRequest,
    reply: FastifyReply,
    { target, token, expiresAtMs }: Welcome,
  ): boolean {
    const { tokens, addresses } = this.#parts.previews;
    const seconds = Math.max(1, Math.round((expiresAtMs - tokens.nowMs()) / 1000));
    // In a frame of another site's page, such as the dashboard, a browser only sends a cookie that
    // is partitioned for that site. Names below `localhost` count as secure.
    const isFramed = request.raw.headers["sec-fetch-dest"] === "iframe";
    const secure = addresses.isSecure || isFramed ? "; Secure" : "";
    const sites = isFramed ? "SameSite=None; Partitioned" : "SameSite=Lax";
    reply.header(
      "Set-Cookie",
      `${PREVIEW_COOKIE}=${token}; Path=/; Max-Age=${seconds}; HttpOnly; ${sites}${secure}`,
    );
    reply.header("Referrer-Policy", "no-referrer");
    // A path that begins with two slashes would be another host's name.
    reply.header("Location", target.replace(/^[/\\]+/, "/"));
    reply.code(303).send();
    return false;
  }

  #linkInCookie({ raw }: FastifyRequest, address: PortAddress): PreviewLink | undefined {
    for (const cookie of (raw.headers.cookie ?? "").split(";")) {
      const [name = "", ...value] = cookie.split("=");
      // Another page may have added one next to ours; any valid one will do.
      if (name.trim() !== PREVIEW_COOKIE) continue;
      const link = this.#parts.previews.tokens.check(value.join("=").trim(), address);
      if (link !== undefined) return link;
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
    if (!request.isForwarded && !hosts.includes(raw))
      throw new SandboxError(
        "PERMISSION_DENIED",
        "the Host header is not a known name of this daemon",
      );
    const link = previews.tokens.check(token, path);
    if (link === undefined) throw denied();
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
    request.preview = { ...byPath(path), visitor: "link", link };
    return true;
  }
}

function byPath(path: ProxyPath) {
  const { sessionId, port, prefix, target } = path;
  return { sessionId, port, by: "path", prefix, target, publicPrefix: pathOf(path) } as const;
}

/**
 * SECURITY: a browser also sends the cookie with requests caused by other pages: other previews are
 * of the same site if they share a domain. Only the page itself, and a visitor who follows a link
 * to it, are allowed. Guarded by preview-links.test.ts.
 */
function requireOwnPage({ raw: { headers, method } }: FastifyRequest): void {
  const { origin, host, "sec-fetch-site": site, "sec-fetch-mode": mode } = headers;
  const isForeignOrigin = origin !== undefined && !isSameOrigin(origin, host);
  const isOwn = site === undefined || site === "same-origin" || site === "none";
  const opensPage = mode === "navigate" && (method === "GET" || method === "HEAD");
  if (isForeignOrigin || (!isOwn && !opensPage))
    throw new SandboxError(
      "PERMISSION_DENIED",
      "the page of another origin may not use this preview",
    );
}

/** A browser that opens a page, rather than a program that fetches it. */
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
