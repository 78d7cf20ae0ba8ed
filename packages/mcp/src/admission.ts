/** Who may use the HTTP server: with the key, by a known host name, and not from a foreign web page. */
import { hash, timingSafeEqual } from "node:crypto";
import {
  hostHeaderValidationResponse,
  localhostAllowedHostnames,
  localhostAllowedOrigins,
  originValidationResponse,
} from "@modelcontextprotocol/server";

export interface AdmissionOptions {
  readonly apiKey: string;
  /** The address that the server listens on. */
  readonly host: string;
  /** Additional host names that requests may use. */
  readonly allowedHosts?: readonly string[] | undefined;
}

export class Admission {
  readonly #digest: Buffer;
  readonly #hosts: string[];
  readonly #origins: string[];

  constructor({ apiKey, host, allowedHosts = [] }: AdmissionOptions) {
    this.#digest = digestOf(apiKey);
    const own = host.includes(":") ? `[${host}]` : host;
    this.#hosts = [...localhostAllowedHostnames(), own, ...allowedHosts];
    this.#origins = [...localhostAllowedOrigins(), ...allowedHosts];
  }

  /**
   * The response to a request that is not allowed.
   *
   * SECURITY: a web page could reach a server on loopback under a name that it made resolve to it (DNS
   * rebinding); its Host or Origin header reveals that. The key is compared in constant time. Guarded by
   * mcp-attack.serial.test.ts.
   */
  refuse(request: Request): Response | undefined {
    const foreign =
      hostHeaderValidationResponse(request, this.#hosts) ??
      originValidationResponse(request, this.#origins);
    if (foreign !== undefined) return foreign;
    const key = /^Bearer ([\x21-\x7e]+)$/.exec(request.headers.get("authorization") ?? "")?.[1];
    if (key !== undefined && timingSafeEqual(digestOf(key), this.#digest)) return undefined;
    return Response.json(
      { error: "unauthorized", message: "Send the API key as Authorization: Bearer KEY." },
      { status: 401, headers: { "www-authenticate": "Bearer" } },
    );
  }
}

function digestOf(key: string): Buffer {
  return hash("sha256", key, "buffer");
}
