/** Which headers are passed into the sandbox, and which come out of it. */
import type { IncomingMessage } from "node:http";
import { SandboxError } from "@sandkasten/protocol";
import { PEER_HEADER } from "../http/admission/peer-header.ts";
import { TOKEN_PARAMETER } from "./preview-address.ts";
import type { Preview } from "./preview.ts";

export const PREVIEW_COOKIE = "sandkasten_preview";

/** They concern one connection, not what it carries (RFC 9110, 7.6.1). */
const HOP_BY_HOP: ReadonlySet<string> = new Set([
  "connection",
  "expect",
  "http2-settings",
  "keep-alive",
  "proxy-authenticate",
  "proxy-authorization",
  "proxy-connection",
  "te",
  "trailer",
  "transfer-encoding",
  "upgrade",
]);
/** Set by us, whatever the client sends. */
const OUR_WORD: ReadonlySet<string> = new Set([
  "content-length",
  "forwarded",
  "host",
  "x-forwarded-for",
  "x-forwarded-host",
  "x-forwarded-port",
  "x-forwarded-prefix",
  "x-forwarded-proto",
  PEER_HEADER,
]);
/** They apply to a whole origin, which by path is the daemon's. */
const ORIGIN_WIDE: ReadonlySet<string> = new Set([
  "accept-ch",
  "clear-site-data",
  "critical-ch",
  "nel",
  "origin-agent-cluster",
  "origin-trial",
  "public-key-pins",
  "report-to",
  "reporting-endpoints",
  "service-worker-allowed",
  "set-cookie",
  "set-login",
  "speculation-rules",
  "strict-transport-security",
  "www-authenticate",
]);
const WITH_BODY: ReadonlySet<string | undefined> = new Set(["POST", "PUT", "PATCH"]);

/**
 * SECURITY: a page served from the daemon's own origin must not act in it. The browser gives it an
 * opaque origin, so it has no cookies, no storage and no access to other pages. Guarded by
 * preview-responses.test.ts.
 */
const SANDBOX_POLICY =
  "sandbox allow-downloads allow-forms allow-modals allow-popups allow-scripts";

export interface RequestHeaderOptions {
  readonly preview: Preview;
  readonly scheme: "http" | "https";
  /** The request asks for a WebSocket, and may become one. */
  readonly isUpgrade: boolean;
  /** Whether an Authorization header is a key of this daemon. */
  readonly isOurs: (authorization: string) => boolean;
}

/**
 * The request head for the application, as alternating names and values.
 *
 * SECURITY: keys of the daemon, tokens of links, the cookie that holds one, and messages between daemons
 * never enter the sandbox; the code there is hostile. The body's framing is rebuilt from what the parser
 * understood, so nothing can be hidden between two readings of it (threat: header injection). Guarded by
 * preview-requests.test.ts and forwarded-requests.test.ts.
 */
export function requestHeaders(request: IncomingMessage, options: RequestHeaderOptions): string[] {
  const { preview, scheme, isUpgrade } = options;
  const forwarded: string[] = [];
  const dropped = connectionNames(request.headers.connection);
  for (const [name, value] of pairs(request.rawHeaders)) {
    const lower = name.toLowerCase();
    if (HOP_BY_HOP.has(lower) || OUR_WORD.has(lower) || dropped.has(lower)) continue;
    const allowed = allowedValue(lower, value, options);
    if (allowed !== undefined) forwarded.push(name, allowed);
  }
  const { host = "", "x-forwarded-for": chain } = request.headers;
  const peer = request.socket.remoteAddress ?? "unknown";
  forwarded.push("Host", host, "X-Forwarded-Host", host, "X-Forwarded-Proto", scheme);
  forwarded.push("X-Forwarded-For", typeof chain === "string" ? `${chain}, ${peer}` : peer);
  if (preview.by === "path") forwarded.push("X-Forwarded-Prefix", preview.publicPrefix);
  forwarded.push(...framing(request));
  forwarded.push(...(isUpgrade ? ["Connection", "Upgrade", "Upgrade", "websocket"] : CLOSE));
  return forwarded;
}

/** One request per connection: what a hostile server sends after its response cannot become the next one's. */
const CLOSE = ["Connection", "close"];

function allowedValue(
  name: string,
  value: string,
  { preview, isOurs }: RequestHeaderOptions,
): string | undefined {
  const isCaller = preview.visitor !== "link";
  switch (name) {
    case "authorization":
      return (preview.by === "path" && isCaller) || isOurs(value) ? undefined : value;
    case "cookie":
      return preview.by === "path" ? undefined : withoutOurCookie(value);
    case "referer":
      return preview.by === "path" || value.includes(TOKEN_PARAMETER) ? undefined : value;
    case "sec-websocket-protocol":
      return withoutOurProtocols(value);
    default:
      return value;
  }
}

function withoutOurCookie(value: string): string | undefined {
  const kept = value.split(";").filter((cookie) => cookieName(cookie) !== PREVIEW_COOKIE);
  return kept.length === 0 ? undefined : kept.join(";").trim();
}

function withoutOurProtocols(value: string): string | undefined {
  const offered = value.split(",").map((protocol) => protocol.trim());
  const kept = offered.filter((protocol) => !protocol.startsWith("sandkasten."));
  return kept.length === 0 ? undefined : kept.join(", ");
}

/** The length of the body, stated once. */
function framing({ headers, method }: IncomingMessage): string[] {
  const coding = headers["transfer-encoding"];
  if (coding !== undefined) {
    if (coding.trim().toLowerCase() !== "chunked")
      throw new SandboxError("INVALID_REQUEST", "only the transfer coding `chunked` is supported");
    return ["Transfer-Encoding", "chunked"];
  }
  const length = headers["content-length"] ?? (WITH_BODY.has(method) ? "0" : undefined);
  return length === undefined ? [] : ["Content-Length", length];
}

/**
 * The response head for the visitor, as alternating names and values.
 *
 * SECURITY: the application is hostile, and by path it responds under the daemon's own address: it
 * cannot set cookies there or anything that applies to the whole origin. By host it sets cookies only for
 * its own name, and never ours. Guarded by preview-responses.test.ts.
 */
export function responseHeaders(response: IncomingMessage, preview: Preview): string[] {
  const sent: string[] = [];
  const dropped = connectionNames(response.headers.connection);
  for (const [name, value] of pairs(response.rawHeaders)) {
    const lower = name.toLowerCase();
    if (HOP_BY_HOP.has(lower) || dropped.has(lower) || lower === "alt-svc") continue;
    if (preview.by === "host") {
      const allowed = lower === "set-cookie" ? hostOnlyCookie(value) : value;
      if (allowed !== undefined) sent.push(name, allowed);
    } else if (!ORIGIN_WIDE.has(lower) && !lower.startsWith("access-control-")) {
      sent.push(name, lower === "location" ? belowPrefix(value, preview.prefix) : value);
    }
  }
  if (preview.by === "path") {
    sent.push("Content-Security-Policy", SANDBOX_POLICY);
    sent.push("Referrer-Policy", "no-referrer");
    sent.push("X-Content-Type-Options", "nosniff");
    // The link alone gives read access, and a page with an opaque origin has no other way.
    if (preview.visitor === "link") sent.push("Access-Control-Allow-Origin", "*");
  }
  return sent;
}

function hostOnlyCookie(value: string): string | undefined {
  if (cookieName(value) === PREVIEW_COOKIE) return undefined;
  return value
    .split(";")
    .filter((attribute) => !/^\s*domain\s*(?:=|$)/i.test(attribute))
    .join(";");
}

function cookieName(cookie: string): string {
  return (cookie.split(";")[0] ?? "").split("=")[0]?.trim().toLowerCase() ?? "";
}

/** An application that does not know its prefix means its own root. */
function belowPrefix(location: string, prefix: string): string {
  return /^\/(?!\/)/.test(location) ? prefix + location : location;
}

/** Headers named in a Connection header also concern only the connection. */
function connectionNames(connection: string | undefined): ReadonlySet<string> {
  return new Set((connection ?? "").split(",").map((name) => name.trim().toLowerCase()));
}

export function* pairs(rawHeaders: readonly string[]): Generator<readonly [string, string]> {
  for (let index = 0; index + 1 < rawHeaders.length; index += 2)
    yield [rawHeaders[index] ?? "", rawHeaders[index + 1] ?? ""];
}
