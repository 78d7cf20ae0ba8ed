/** Which headers go into the sandbox, and which come out of it. */
import type { IncomingMessage } from "node:http";
import { SandboxError } from "@sandkasten/protocol";
import { PEER_HEADER } from "../http/admission/peer-header.ts";
import { TOKEN_PARAMETER } from "./preview-address.ts";
import type { Preview } from "./preview.ts";

export const PREVIEW_COOKIE = "sandkasten_preview";

/** They are about one connection, not about what goes through it (RFC 9110, 7.6.1). */
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
/** Said by us, whatever the client says. */
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
/** They speak for a whole origin, which by path is the daemon's. */
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
 * SECURITY: a page that comes from the daemon's own origin must not act in it. The browser gives it an
 * origin that equals no other, so that it has no cookies, no storage and no say over other pages.
 * Guarded by preview-responses.test.ts.
 */
const SANDBOX_POLICY =
  "sandbox allow-downloads allow-forms allow-modals allow-popups allow-scripts";

export interface RequestHeaderOptions {
  readonly preview: Preview;
  readonly scheme: "http" | "https";
  /** The request asks for a WebSocket, and is to. */
  readonly isUpgrade: boolean;
  /** Whether an Authorization header is a key of this daemon. */
  readonly isOurs: (authorization: string) => boolean;
}

/**
 * The head for the application, as names and values in turn.
 *
 * SECURITY: keys of the daemon, tokens of links, the cookie that holds one, and what daemons say to each
 * other never get into the sandbox; the code there is hostile. The body's framing is made anew from what the parser understood,
 * so that nothing can be hidden between two readings of it (threat: header injection). Guarded by
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

/** One request for each connection: what a hostile server sends after its answer is nobody's next answer. */
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

/** How long the body is, said once. */
function framing({ headers, method }: IncomingMessage): string[] {
  const coding = headers["transfer-encoding"];
  if (coding !== undefined) {
    if (coding.trim().toLowerCase() !== "chunked")
      throw new SandboxError(
        "INVALID_REQUEST",
        "the only transfer coding that is taken is `chunked`, alone",
      );
    return ["Transfer-Encoding", "chunked"];
  }
  const length = headers["content-length"] ?? (WITH_BODY.has(method) ? "0" : undefined);
  return length === undefined ? [] : ["Content-Length", length];
}

/**
 * The head for the visitor, as names and values in turn.
 *
 * SECURITY: the application is hostile, and by path it speaks under the daemon's own address: it sets
 * no cookies there and says nothing that holds for the whole origin. By host it sets cookies for its own
 * name alone, and never ours. Guarded by preview-responses.test.ts.
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
    // The link is all that is needed to read it, and a page without an origin has no other way.
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

/** An application that does not know of its prefix means its own root. */
function belowPrefix(location: string, prefix: string): string {
  return /^\/(?!\/)/.test(location) ? prefix + location : location;
}

/** The headers that a Connection header names are about the connection as well. */
function connectionNames(connection: string | undefined): ReadonlySet<string> {
  return new Set((connection ?? "").split(",").map((name) => name.trim().toLowerCase()));
}

export function* pairs(rawHeaders: readonly string[]): Generator<readonly [string, string]> {
  for (let index = 0; index + 1 < rawHeaders.length; index += 2)
    yield [rawHeaders[index] ?? "", rawHeaders[index + 1] ?? ""];
}
