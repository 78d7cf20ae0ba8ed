/**
 * Stands in for the hosts that get secrets: terminates the program's TLS, adds the headers, and connects
 * to the real host with TLS.
 */
import { Agent, createServer, request as startRequest, STATUS_CODES } from "node:http";
import type { IncomingMessage, RequestOptions, ServerResponse } from "node:http";
import type { Duplex } from "node:stream";
import { pipeline } from "node:stream/promises";
import { connect as connectTls, createSecureContext, rootCertificates, TLSSocket } from "node:tls";
import type { SecureContext } from "node:tls";
import type { Terminator } from "./edge-interceptor.ts";
import { requestHeaders, responseHeaders } from "./edge-headers.ts";
import { normalizeHostName } from "./host-names.ts";
import { PacedDuplex } from "./paced-duplex.ts";
import type { SessionCa } from "./session-ca.ts";

/** A header with its current value. */
export interface HeaderSecret {
  /** Lower case. */
  readonly header: string;
  /** Undefined if the administrator has removed the secret. */
  readonly value: string | undefined;
}

export interface SecretProxyOptions {
  readonly ca: () => Promise<SessionCa>;
  readonly secretsFor: (host: string) => readonly HeaderSecret[];
  /** PEM certificates of additional authorities for real hosts. */
  readonly trusted: readonly string[];
  readonly nowMs: () => number;
  /** Called before bytes of bodies move; see `ConnectionLimiter.take`. */
  readonly take: (bytes: number) => Promise<void> | undefined;
}

const MAX_HEAD_BYTES = 64 * 1024;
const HEAD_TIMEOUT_MS = 60_000;
const HANDSHAKE_TIMEOUT_MS = 30_000;
/** Programs that send requests before they have the answers do so with fewer. */
const MAX_UNANSWERED = 64;

export class SecretProxy implements Terminator {
  readonly #options: SecretProxyOptions;

  constructor(options: SecretProxyOptions) {
    this.#options = options;
  }

  handles(host: string): boolean {
    return this.#options.secretsFor(host).length > 0;
  }

  async serve(host: string, client: Duplex, connect: () => Promise<Duplex>): Promise<void> {
    const { ca, nowMs } = this.#options;
    const secureContext = await (await ca()).contextFor(host, nowMs());
    const program = new TLSSocket(new PacedDuplex(client), {
      isServer: true,
      secureContext,
      // Requests must be read one by one, for which HTTP/1.1 is enough.
      ALPNProtocols: ["http/1.1"],
    });
    const ended = Promise.withResolvers<void>();
    program.once("close", () => ended.resolve());
    // A program that disconnects or does not trust the certificate is not the gateway's problem.
    program.on("error", () => program.destroy());
    // When the host closes, the program is closed as well, and gets a new chance on a new connection.
    const agent = new HostAgent(
      () => this.#connectTo(host, connect),
      () => program.end(),
    );
    // SECURITY: Node's parser is strict, and each request is serialized again from the parsed form, so
    // nothing can be smuggled to the host. Guarded by secret-proxy.test.ts.
    const server = createServer({
      maxHeaderSize: MAX_HEAD_BYTES,
      headersTimeout: HEAD_TIMEOUT_MS,
      requestTimeout: 0,
      insecureHTTPParser: false,
      requireHostHeader: true,
    });
    // A program can send requests before it has the responses; the host gets one after the other.
    let turn: Promise<void> = Promise.resolve();
    let unanswered = 0;
    server.on("request", (request, response) => {
      if (program.destroyed) return;
      // SECURITY: each request that waits takes memory of the daemon, and a host of the program's can
      // let it wait (threat: oversized requests). Guarded by secret-proxy-stalls.test.ts.
      if (unanswered >= MAX_UNANSWERED) {
        program.destroy();
        return;
      }
      unanswered += 1;
      turn = turn
        .then(() => this.#forward(host, agent, request, response))
        .catch(() => void program.destroy())
        .finally(() => {
          unanswered -= 1;
        });
    });
    server.on("upgrade", (request: IncomingMessage, socket: Duplex, head: Buffer) => {
      this.#upgrade(host, agent, request, socket, head).catch(() => program.destroy());
    });
    server.emit("connection", program);
    try {
      await ended.promise;
    } finally {
      agent.destroy();
      server.close();
    }
  }

  async #connectTo(host: string, connect: () => Promise<Duplex>): Promise<TLSSocket> {
    const socket = await connect();
    const { promise, resolve, reject } = Promise.withResolvers<TLSSocket>();
    const tls = connectTls({
      socket: new PacedDuplex(socket),
      servername: host,
      ALPNProtocols: ["http/1.1"],
      secureContext: contextTrusting(this.#options.trusted),
    });
    const timer = setTimeout(() => {
      tls.destroy(new Error("it did not answer in time"));
    }, HANDSHAKE_TIMEOUT_MS);
    tls.once("secureConnect", () => resolve(tls));
    tls.once("error", reject);
    tls.once("close", () => reject(new Error("it closed the connection")));
    try {
      return await promise;
    } finally {
      clearTimeout(timer);
    }
  }

  async #forward(
    host: string,
    agent: HostAgent,
    request: IncomingMessage,
    response: ServerResponse,
  ): Promise<void> {
    const refusal = this.#refusal(host, request);
    if (refusal !== undefined) {
      refuse(response, ...refusal);
      return;
    }
    let received: IncomingMessage;
    let sent: Promise<void>;
    try {
      await agent.ready();
      const upstream = startRequest(this.#requestOptions(host, agent, request));
      const answer = answerOf(upstream);
      sent = pipeline(request, this.#limited(), upstream).catch((error: unknown) => {
        upstream.destroy(error instanceof Error ? error : new Error(String(error)));
      });
      received = await answer;
    } catch (error) {
      refuse(response, 502, failureText(host, error));
      return;
    }
    response.writeHead(
      received.statusCode ?? 502,
      received.statusMessage,
      responseHeaders(received.rawHeaders),
    );
    await pipeline(received, this.#limited(), response);
    await sent;
  }

  /** WebSockets and the like: after the head, bytes pass unchanged in both directions. */
  async #upgrade(
    host: string,
    agent: HostAgent,
    request: IncomingMessage,
    socket: Duplex,
    head: Buffer,
  ): Promise<void> {
    const refusal = this.#refusal(host, request);
    if (refusal !== undefined) {
      socket.end(rawAnswer(...refusal));
      return;
    }
    let switched: Switched;
    try {
      await agent.ready();
      const options = this.#requestOptions(host, agent, request, request.headers.upgrade);
      switched = await switchedBy(startRequest(options));
    } catch (error) {
      socket.end(rawAnswer(502, failureText(host, error)));
      return;
    }
    const { answer, other, rest } = switched;
    socket.write(rawHead(answer));
    if (rest.length > 0) socket.write(rest);
    if (head.length > 0) other.write(head);
    await Promise.all([
      pipeline(socket, this.#limited(), other),
      pipeline(other, this.#limited(), socket),
    ]);
  }

  /** Passes bytes at the pace of the session's limits. */
  #limited(): (source: AsyncIterable<Buffer>) => AsyncGenerator<Buffer> {
    const { take } = this.#options;
    return async function* limited(source) {
      for await (const chunk of source) {
        await take(chunk.byteLength);
        yield chunk;
      }
    };
  }

  /**
   * SECURITY: the secret is for one host. A request that names another one in its Host header or its
   * target, which a server with many hosts would follow, gets no secret and is refused. Guarded by
   * secret-proxy.test.ts.
   */
  #refusal(host: string, request: IncomingMessage): [number, string] | undefined {
    const hosts = request.headersDistinct["host"] ?? [];
    const named = /^([^:]+)(?::\d{1,5})?$/.exec(hosts[0] ?? "")?.[1] ?? "";
    if (hosts.length !== 1 || normalizeHostName(named) !== host)
      return [421, `the Host header must be ${host}, whose name the connection carries`];
    if (!(request.url ?? "").startsWith("/") && request.url !== "*")
      return [400, "the request target must be a path"];
    if (this.#options.secretsFor(host).some(({ value }) => value === undefined))
      return [502, `a secret for ${host} is not in the administrator's store any more`];
    return undefined;
  }

  #requestOptions(
    host: string,
    agent: HostAgent,
    request: IncomingMessage,
    upgrade?: string,
  ): RequestOptions {
    return {
      agent,
      host,
      method: request.method,
      path: request.url,
      setHost: false,
      maxHeaderSize: MAX_HEAD_BYTES,
      headers: requestHeaders(request.rawHeaders, this.#options.secretsFor(host), upgrade),
    };
  }
}

const contexts = new WeakMap<readonly string[], SecureContext>();

/** Reading the usual authorities takes as long as dozens of requests, so it is done once. */
function contextTrusting(trusted: readonly string[]): SecureContext {
  const made = contexts.get(trusted);
  if (made !== undefined) return made;
  const context = createSecureContext({
    ca: [...rootCertificates, ...trusted],
    minVersion: "TLSv1.2",
  });
  contexts.set(trusted, context);
  return context;
}

/** The one connection to the real host, reused while it lasts. */
class HostAgent extends Agent {
  readonly #connect: () => Promise<TLSSocket>;
  readonly #onClose: () => void;
  #connecting: Promise<void> | undefined;
  #socket: TLSSocket | undefined;

  constructor(connect: () => Promise<TLSSocket>, onClose: () => void) {
    super({ keepAlive: true, maxSockets: 1, maxFreeSockets: 1 });
    this.#connect = connect;
    this.#onClose = onClose;
  }

  /** To be awaited before each request. */
  async ready(): Promise<void> {
    this.#connecting ??= this.#open();
    await this.#connecting;
  }

  override createConnection(): Duplex {
    const socket = this.#socket;
    this.#socket = undefined;
    if (socket === undefined) throw new Error("it closed the connection");
    return socket;
  }

  async #open(): Promise<void> {
    this.#socket = await this.#connect();
    this.#socket.once("close", this.#onClose);
  }
}

interface Switched {
  readonly answer: IncomingMessage;
  readonly other: Duplex;
  /** Bytes of the host right after its response. */
  readonly rest: Buffer;
}

async function switchedBy(upstream: ReturnType<typeof startRequest>): Promise<Switched> {
  const { promise, resolve, reject } = Promise.withResolvers<Switched>();
  upstream.once("upgrade", (answer, other, rest) => resolve({ answer, other, rest }));
  upstream.once("response", (answer) => {
    answer.destroy();
    reject(new Error(`it answered ${answer.statusCode ?? 0} instead of switching`));
  });
  upstream.once("error", reject);
  upstream.end();
  return await promise;
}

async function answerOf(upstream: ReturnType<typeof startRequest>): Promise<IncomingMessage> {
  const { promise, resolve, reject } = Promise.withResolvers<IncomingMessage>();
  upstream.once("response", resolve);
  upstream.on("error", reject);
  return await promise;
}

function refuse(response: ServerResponse, status: number, message: string): void {
  if (response.headersSent) {
    response.destroy();
    return;
  }
  // The rest of the request's body is not read.
  response.writeHead(status, { "content-type": "text/plain; charset=utf-8", connection: "close" });
  response.end(`Sandkasten gateway: ${message}\n`);
}

/** Only the kind of failure: a server's message could repeat what it was sent. */
function failureText(host: string, error: unknown): string {
  const { code, message } = error as NodeJS.ErrnoException;
  return `${host} could not be asked (${code ?? message})`;
}

function rawAnswer(status: number, message: string): string {
  const body = `Sandkasten gateway: ${message}\n`;
  return `HTTP/1.1 ${status} ${STATUS_CODES[status] ?? ""}\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: ${Buffer.byteLength(body)}\r\nConnection: close\r\n\r\n${body}`;
}

function rawHead(answer: IncomingMessage): string {
  const lines = [`HTTP/1.1 ${answer.statusCode} ${answer.statusMessage}`];
  const { rawHeaders } = answer;
  for (let at = 0; at + 1 < rawHeaders.length; at += 2)
    lines.push(`${rawHeaders[at]}: ${rawHeaders[at + 1]}`);
  return `${lines.join("\r\n")}\r\n\r\n`;
}
