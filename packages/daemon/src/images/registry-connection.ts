/**
 * HTTP with one registry for one pull: redirects, tokens, time limits, and only addresses that the
 * policy allows.
 */
import type { LookupAddress } from "node:dns";
import * as http from "node:http";
import * as https from "node:https";
import type { LookupFunction } from "node:net";
import { getCACertificates } from "node:tls";
import type { ImageReference } from "./reference.ts";
import type { RegistryCredentials } from "./registry-credentials.ts";
import { RegistryFailure } from "./registry-failure.ts";
import { DOCKER_HUB } from "./registry-policy.ts";
import type { RegistryPolicy } from "./registry-policy.ts";

/** The actual host of docker.io. */
const DOCKER_HUB_HOST = "registry-1.docker.io";
const MAX_REDIRECTS = 5;
const MAX_TOKEN_BYTES = 256 * 1024;
const STALL_TIMEOUT_MS = 60_000;
const REDIRECTS: ReadonlySet<number | undefined> = new Set([301, 302, 303, 307, 308]);
const TOKEN = /^[\x21-\x7e]+$/;

export interface RegistryConnectionOptions {
  readonly reference: ImageReference;
  readonly policy: RegistryPolicy;
  readonly credentials: RegistryCredentials | undefined;
  readonly signal: AbortSignal;
  /** Certificates to trust in addition to the machine's. */
  readonly certificates?: readonly string[];
}

interface Question {
  readonly method: "GET" | "POST";
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: string;
}

export class RegistryConnection implements Disposable {
  readonly #options: RegistryConnectionOptions;
  readonly #registry: string;
  readonly #base: URL;
  readonly #repository: string;
  readonly #plain = new http.Agent({ keepAlive: true });
  readonly #secure: https.Agent;
  #authorization: Promise<string> | undefined;

  constructor(options: RegistryConnectionOptions) {
    const { reference, policy, certificates = [] } = options;
    this.#options = options;
    this.#registry = reference.registry ?? DOCKER_HUB;
    const path = reference.repository.slice(
      reference.registry === undefined ? 0 : reference.registry.length + 1,
    );
    this.#repository =
      reference.registry === undefined && !path.includes("/") ? `library/${path}` : path;
    const scheme = policy.isInsecure(this.#registry) ? "http" : "https";
    const host = this.#registry === DOCKER_HUB ? DOCKER_HUB_HOST : this.#registry;
    this.#base = new URL(`${scheme}://${host}/v2/${this.#repository}/`);
    this.#secure = new https.Agent({
      keepAlive: true,
      ca: [...getCACertificates("default"), ...getCACertificates("system"), ...certificates],
    });
  }

  /** Reads a whole document of the repository, such as `manifests/latest`. */
  async read(path: string, accept: readonly string[], maxBytes: number): Promise<Buffer> {
    const response = await this.open(path, { accept: accept.join(", ") });
    return await collect(response, maxBytes);
  }

  /** The response for a path of the repository, to be read to its end or destroyed. */
  async open(
    path: string,
    headers: Readonly<Record<string, string>> = {},
  ): Promise<http.IncomingMessage> {
    const url = new URL(path, this.#base);
    const ask = async (authorization: string | undefined): Promise<http.IncomingMessage> => {
      const told = authorization === undefined ? {} : { authorization };
      return await this.#follow(url, { method: "GET", headers: { ...headers, ...told } });
    };
    const known = this.#authorization;
    let response = await ask(await known);
    if (response.statusCode === 401) {
      const challenge = response.headers["www-authenticate"];
      response.destroy();
      // Another download may have obtained a new token meanwhile.
      if (this.#authorization === known) this.#authorization = this.#authorize(challenge);
      response = await ask(await this.#authorization);
    }
    if (response.statusCode === 200) return response;
    response.destroy();
    throw statusFailure(url, response.statusCode);
  }

  [Symbol.dispose](): void {
    this.#plain.destroy();
    this.#secure.destroy();
  }

  /** The authorization to send after the registry's challenge. */
  async #authorize(challenge: string | undefined): Promise<string> {
    const { credentials } = this.#options;
    const [scheme = ""] = challenge?.split(" ", 1) ?? [];
    const basic =
      credentials !== undefined && "password" in credentials
        ? `Basic ${Buffer.from(`${credentials.username}:${credentials.password}`).toString("base64")}`
        : undefined;
    if (scheme.toLowerCase() === "basic" && basic !== undefined) return basic;
    const realm = parameterOf(challenge, "realm");
    if (scheme.toLowerCase() !== "bearer" || realm === undefined)
      throw new RegistryFailure("denied", `${this.#base.host} requires credentials`);
    const url = URL.parse(realm);
    if (url === null) throw new RegistryFailure("unexpected", "the token realm is not a URL");
    return `Bearer ${await this.#token(url, parameterOf(challenge, "service"), basic)}`;
  }

  async #token(
    realm: URL,
    service: string | undefined,
    basic: string | undefined,
  ): Promise<string> {
    const { credentials } = this.#options;
    const form = new URLSearchParams({ scope: `repository:${this.#repository}:pull` });
    if (service !== undefined) form.set("service", service);
    let question: Question = { method: "GET", headers: basic ? { authorization: basic } : {} };
    if (credentials !== undefined && "identitytoken" in credentials) {
      form.set("grant_type", "refresh_token");
      form.set("client_id", "sandkasten");
      form.set("refresh_token", credentials.identitytoken);
      const headers = { "content-type": "application/x-www-form-urlencoded" };
      question = { method: "POST", headers, body: form.toString() };
    } else {
      for (const [name, value] of form) realm.searchParams.set(name, value);
    }
    const response = await this.#follow(realm, question);
    if (response.statusCode !== 200) {
      response.destroy();
      throw statusFailure(realm, response.statusCode);
    }
    return tokenOf(await collect(response, MAX_TOKEN_BYTES));
  }

  /**
   * SECURITY: credentials for one host are not sent to another (threat: leaked secrets and
   * descriptors). Guarded by registry-targets.test.ts.
   */
  async #follow(from: URL, question: Question): Promise<http.IncomingMessage> {
    let url = from;
    let { headers } = question;
    for (let hops = 0; hops <= MAX_REDIRECTS; hops += 1) {
      const response = await this.#request(url, { ...question, headers });
      const { location } = response.headers;
      if (!REDIRECTS.has(response.statusCode) || location === undefined) return response;
      response.destroy();
      const next = URL.parse(location, url.href);
      if (next === null) throw new RegistryFailure("unexpected", "a redirect has an invalid URL");
      if (question.method !== "GET")
        throw new RegistryFailure("unexpected", `${url.host} redirects a token request`);
      if (next.origin !== url.origin) {
        const { authorization: _, ...others } = headers;
        headers = others;
      }
      url = next;
    }
    throw new RegistryFailure("unexpected", `${from.host} redirects too often`);
  }

  async #request(url: URL, question: Question): Promise<http.IncomingMessage> {
    const addresses = await this.#options.policy.addressesFor(url, this.#registry);
    const isSecure = url.protocol === "https:";
    const options: https.RequestOptions = {
      method: question.method,
      headers: { "accept-encoding": "identity", ...question.headers },
      agent: isSecure ? this.#secure : this.#plain,
      lookup: pinnedTo(addresses),
      signal: this.#options.signal,
      timeout: STALL_TIMEOUT_MS,
    };
    return await new Promise((resolve, reject) => {
      const request = isSecure ? https.request(url, options) : http.request(url, options);
      request.once("response", resolve);
      request.once("timeout", () => request.destroy(new Error("no data for a minute")));
      request.once("error", (cause) => {
        const what = `the request to ${url.host} failed: ${cause.message}`;
        reject(new RegistryFailure("unreachable", what, { cause }));
      });
      request.end(question.body);
    });
  }
}

/** Returns addresses that were resolved earlier, even if the name's addresses have changed. */
function pinnedTo(addresses: readonly LookupAddress[]): LookupFunction {
  return (_hostname, options, callback) => {
    const [first] = addresses;
    if (options.all === true) callback(null, [...addresses]);
    else callback(null, first?.address ?? "", first?.family);
  };
}

async function collect(response: http.IncomingMessage, maxBytes: number): Promise<Buffer> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  try {
    for await (const chunk of response as AsyncIterable<Buffer>) {
      bytes += chunk.length;
      if (bytes > maxBytes) break;
      chunks.push(chunk);
    }
  } catch (cause) {
    throw new RegistryFailure("unreachable", "a response broke off", { cause });
  }
  if (bytes > maxBytes)
    throw new RegistryFailure("unexpected", `a response is larger than ${maxBytes} bytes`);
  return Buffer.concat(chunks);
}

function tokenOf(answer: Buffer): string {
  const { token, access_token: accessToken } = parsed(answer);
  const found = token ?? accessToken;
  if (typeof found === "string" && TOKEN.test(found)) return found;
  throw new RegistryFailure("unexpected", "the token realm responded without a token");
}

function parsed(answer: Buffer): Readonly<Record<string, unknown>> {
  try {
    return Object(JSON.parse(answer.toString("utf8"))) as Record<string, unknown>;
  } catch (cause) {
    throw new RegistryFailure("unexpected", "the token realm did not respond with JSON", {
      cause,
    });
  }
}

/** A parameter of a challenge such as `Bearer realm="https://…",service="…"`. */
function parameterOf(challenge: string | undefined, name: string): string | undefined {
  return new RegExp(`[ ,]${name}="([^"]*)"`, "i").exec(challenge ?? "")?.[1];
}

function statusFailure(url: URL, status: number | undefined): RegistryFailure {
  const what = `${url.host} responded with status ${status}`;
  if (status === 404) return new RegistryFailure("absent", what);
  if (status === 401 || status === 403) return new RegistryFailure("denied", what);
  const isTemporary = status === 429 || (status ?? 0) >= 500;
  return new RegistryFailure(isTemporary ? "unreachable" : "unexpected", what);
}
