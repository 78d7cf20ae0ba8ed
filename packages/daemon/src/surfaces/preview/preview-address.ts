/** The addresses of previews: each port of each session has a separate host name, or a path of the daemon. */
import type { IncomingMessage } from "node:http";

/** A port of a session. */
export interface PortAddress {
  readonly sessionId: string;
  readonly port: number;
}

export interface PreviewAddressOptions {
  /** `name` or `name:port`; `localhost` when absent. */
  readonly domain?: string;
  readonly scheme: "http" | "https";
}

/** The query parameter that carries a link's token. */
export const TOKEN_PARAMETER = "sandkasten_token";

const LABEL = /^([1-9]\d{0,4})-ses[-_]([0-9a-f]{24})$/;
const HOST = /^([a-z0-9._-]+?)(?::\d{1,5})?$/;
const LOOPBACK_HOST = /^(?:localhost|127(?:\.\d{1,3}){3}|\[::1\])(:\d{1,5})?$/i;
const MAX_PORT = 65_535;

export class PreviewAddresses {
  readonly #options: PreviewAddressOptions;
  readonly #suffix: string;

  constructor(options: PreviewAddressOptions) {
    this.#options = options;
    const domain = options.domain ?? "localhost";
    this.#suffix = `.${domain.replace(/:\d+$/, "").toLowerCase()}`;
  }

  get isSecure(): boolean {
    return this.#options.scheme === "https";
  }

  /**
   * The port in the request's host name.
   *
   * SECURITY: exactly one label of exactly one form below exactly the preview domain, from exactly one
   * Host header. Anything else (a trailing dot, further labels, a user name, another domain) is not a
   * preview and is left to the API's host check, which refuses it. A request to a preview host never
   * reaches the API. Guarded by preview-hosts.test.ts.
   */
  ofHost({ rawHeaders, headers }: IncomingMessage): PortAddress | undefined {
    const host = HOST.exec(headers.host?.toLowerCase() ?? "")?.[1];
    if (host?.endsWith(this.#suffix) !== true || countOf("host", rawHeaders) !== 1)
      return undefined;
    const [, port, letters] = LABEL.exec(host.slice(0, -this.#suffix.length)) ?? [];
    if (letters === undefined || Number(port) > MAX_PORT) return undefined;
    return { sessionId: `ses_${letters}`, port: Number(port) };
  }

  /**
   * The URL of the port for a browser: with a separate host name, or a path if no such name leads
   * to the daemon. `asked` is the host under which the client reached the daemon.
   */
  urlOf({ sessionId, port }: PortAddress, token: string, asked: string): string {
    const { domain, scheme } = this.#options;
    const ownPort = LOOPBACK_HOST.exec(asked);
    const base = domain ?? (ownPort === null ? undefined : `localhost${ownPort[1] ?? ""}`);
    if (base === undefined) return `${scheme}://${asked}${pathOf({ sessionId, port })}~${token}/`;
    const label = `${port}-${sessionId.replaceAll("_", "-")}`;
    return `${scheme}://${label}.${base}/?${TOKEN_PARAMETER}=${token}`;
  }
}

/** The port's path in the API, without a trailing slash. */
export function pathOf({ sessionId, port }: PortAddress): string {
  return `/v1/sessions/${sessionId}/proxy/${port}`;
}

export interface ProxyPath extends PortAddress {
  /** The part of the URL that identifies the port, including a token. */
  readonly prefix: string;
  readonly token: string | undefined;
  /** The requested target in the application; empty if even the slash is missing. */
  readonly target: string;
  /** From the question mark on. */
  readonly query: string;
}

const PROXY_PATH =
  /^(\/v1\/sessions\/([A-Za-z0-9_-]{1,128})\/proxy\/([1-9]\d{0,4})(?:~([A-Za-z0-9._-]{1,256}))?)(\/[^?]*)?(\?.*)?$/s;

/** The parts of a URL that names a port by path. Not decoded: the application gets it unchanged. */
export function parseProxyPath(url: string): ProxyPath | undefined {
  const [, prefix = "", sessionId = "", port, token, path = "", query = ""] =
    PROXY_PATH.exec(url) ?? [];
  if (port === undefined || Number(port) > MAX_PORT) return undefined;
  const target = path === "" ? "" : path + query;
  return { sessionId, port: Number(port), prefix, token, target, query };
}

/** A path and query without the token, and the token; the rest stays as written. */
export function takeToken(url: string): { readonly target: string; readonly token?: string } {
  const start = url.indexOf("?");
  if (start === -1) return { target: url };
  const isToken = (part: string): boolean => part.startsWith(`${TOKEN_PARAMETER}=`);
  const parts = url.slice(start + 1).split("&");
  const token = parts.find(isToken)?.slice(TOKEN_PARAMETER.length + 1);
  if (token === undefined) return { target: url };
  const rest = parts.filter((part) => !isToken(part)).join("&");
  return { target: url.slice(0, start) + (rest === "" ? "" : `?${rest}`), token };
}

function countOf(name: string, rawHeaders: readonly string[]): number {
  return rawHeaders.filter((text, index) => index % 2 === 0 && text.toLowerCase() === name).length;
}
