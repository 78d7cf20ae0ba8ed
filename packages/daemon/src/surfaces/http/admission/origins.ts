/** Tells requests of our own pages and of programs from those that a foreign page makes a browser send. */
import { isIP } from "node:net";
import type { IncomingMessage } from "node:http";

const LOOPBACK = /^(?:localhost|127(?:\.\d{1,3}){3}|::1)$/;
const HOST = /^(?:\[(?<v6>[0-9a-f:.]+)\]|(?<name>[a-z0-9._-]+))(?::\d{1,5})?$/;

/** The host of a `Host` header without its port and brackets, or undefined when it is none. */
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
   * SECURITY: a page that has its own name resolve to this machine speaks to it under that name,
   * so only known names count: those of loopback, the address that the connection really came in
   * on, and what the operator lists (threat: foreign web pages). Guarded by admission.test.ts.
   */
  includes(request: IncomingMessage): boolean {
    const host = hostOf(request.headers.host);
    if (host === undefined) return false;
    if (this.#hosts.has(host) || LOOPBACK.test(host)) return true;
    return isIP(host) !== 0 && host === plainAddress(request.socket.localAddress);
  }
}

/** An IPv4 address is written as an IPv6 one by sockets that take both. */
function plainAddress(address: string | undefined): string | undefined {
  return address?.replace(/^::ffff:(?=\d+\.)/, "").toLowerCase();
}

/** Whether a page of this origin has this host's own address in the bar of its browser. */
export function isSameOrigin(origin: string, host: string | undefined): boolean {
  return origin === `http://${host ?? ""}` || origin === `https://${host ?? ""}`;
}
