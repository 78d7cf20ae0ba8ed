/**
 * Distinguishes requests of our own pages and of programs from those that a foreign page makes a
 * browser send.
 */
import { isIP } from "node:net";
import type { IncomingMessage } from "node:http";

const LOOPBACK = /^(?:localhost|127(?:\.\d{1,3}){3}|::1)$/;
const HOST = /^(?:\[(?<v6>[0-9a-f:.]+)\]|(?<name>[a-z0-9._-]+))(?::\d{1,5})?$/;

/** The host of a `Host` header without port and brackets, or undefined if it is invalid. */
function hostOf(header: string | undefined): string | undefined {
  const parts = HOST.exec(header?.toLowerCase() ?? "")?.groups;
  return parts?.["v6"] ?? parts?.["name"];
}

export class KnownHosts {
  readonly #hosts: ReadonlySet<string>;

  constructor(hosts: readonly string[]) {
    this.#hosts = new Set(hosts.map((host) => hostOf(host) ?? host.toLowerCase()));
  }

  /**
   * Whether the request was meant for this daemon.
   *
   * SECURITY: a page whose name resolves to this machine (DNS rebinding) sends requests with that name,
   * so only known names are accepted: those of loopback, the address that the connection really came in
   * on, and those that the operator lists (threat: foreign web pages). Guarded by admission.test.ts.
   */
  includes(request: IncomingMessage): boolean {
    const host = hostOf(request.headers.host);
    if (host === undefined) return false;
    if (this.#hosts.has(host) || LOOPBACK.test(host)) return true;
    return isIP(host) !== 0 && host === plainAddress(request.socket.localAddress);
  }
}

/** Dual-stack sockets write an IPv4 address as an IPv6 one. */
function plainAddress(address: string | undefined): string | undefined {
  return address?.replace(/^::ffff:(?=\d+\.)/, "").toLowerCase();
}

/** Whether a page of this origin was loaded from this host. */
export function isSameOrigin(origin: string, host: string | undefined): boolean {
  return origin === `http://${host ?? ""}` || origin === `https://${host ?? ""}`;
}
