/** Decides which requests are served, before their bodies are read. */
import { hash, timingSafeEqual } from "node:crypto";
import { isIP } from "node:net";
import type { IncomingMessage } from "node:http";
import { ServiceError } from "./service-error.ts";

export interface AdmissionOptions {
  /** Without a key, every request over loopback is served. */
  readonly apiKey?: string | undefined;
  /** Host names under which the service may be addressed, besides loopback and its own address. */
  readonly allowedHosts?: readonly string[] | undefined;
}

const LOOPBACK = /^(?:localhost|127(?:\.\d{1,3}){3}|::1)$/;
const HOST = /^(?:\[(?<v6>[0-9a-f:.]+)\]|(?<name>[a-z0-9._-]+))(?::\d{1,5})?$/;
const SINGLE_HEADERS: ReadonlySet<string> = new Set(["authorization", "host", "origin"]);

export class Admission {
  readonly #keyDigest: Buffer | undefined;
  readonly #hosts: ReadonlySet<string>;

  constructor({ apiKey, allowedHosts = [] }: AdmissionOptions) {
    this.#keyDigest = apiKey === undefined ? undefined : digestOf(apiKey);
    this.#hosts = new Set(allowedHosts.map((host) => hostOf(host) ?? host.toLowerCase()));
  }

  /**
   * Throws for a request that must not be served.
   *
   * SECURITY: this runs for every path, known or not. A page whose own name resolves to this
   * machine (DNS rebinding) is refused by its Host header, and a page of a foreign origin by its
   * Origin header, both before the key is compared: running an agent costs money and runs code.
   * Guarded by admission.test.ts.
   */
  admit(request: IncomingMessage, access: "open" | "key"): void {
    const { headers } = request;
    if (hasRepeatedHeader(request.rawHeaders) || !this.#isKnownHost(request))
      throw new ServiceError(
        "PERMISSION_DENIED",
        "The Host header does not name this service. Use its address, or add the name to SANDKASTEN_AGENTS_ALLOWED_HOSTS.",
      );
    if (headers.origin !== undefined && !isSameOrigin(headers.origin, headers.host))
      throw new ServiceError(
        "PERMISSION_DENIED",
        "Pages from other origins cannot use this service.",
      );
    if (access === "open" || this.#keyDigest === undefined) return;
    const key = /^Bearer (?<key>\S+)$/i.exec(headers.authorization ?? "")?.groups?.["key"];
    // SECURITY: comparing digests of equal length in constant time reveals nothing about the key.
    if (key === undefined || !timingSafeEqual(digestOf(key), this.#keyDigest))
      throw new ServiceError(
        "UNAUTHORIZED",
        "The key is missing or wrong. Send it as `Authorization: Bearer KEY`.",
      );
  }

  #isKnownHost(request: IncomingMessage): boolean {
    const host = hostOf(request.headers.host);
    if (host === undefined) return false;
    if (this.#hosts.has(host) || LOOPBACK.test(host)) return true;
    return isIP(host) !== 0 && host === plainAddress(request.socket.localAddress);
  }
}

/** The host of a `Host` header without port and brackets. */
function hostOf(header: string | undefined): string | undefined {
  const parts = HOST.exec(header?.toLowerCase() ?? "")?.groups;
  return parts?.["v6"] ?? parts?.["name"];
}

/** Sockets that accept both protocols write an IPv4 address as an IPv6 one. */
function plainAddress(address: string | undefined): string | undefined {
  return address?.replace(/^::ffff:(?=\d+\.)/, "").toLowerCase();
}

function isSameOrigin(origin: string, host: string | undefined): boolean {
  return origin === `http://${host ?? ""}` || origin === `https://${host ?? ""}`;
}

/** Choosing one of two values would be a guess. */
function hasRepeatedHeader(rawHeaders: readonly string[]): boolean {
  const names = rawHeaders
    .filter((_, index) => index % 2 === 0)
    .map((name) => name.toLowerCase())
    .filter((name) => SINGLE_HEADERS.has(name));
  return new Set(names).size < names.length;
}

function digestOf(key: string): Buffer {
  return hash("sha256", key, "buffer");
}
