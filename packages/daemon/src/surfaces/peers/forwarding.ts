/** Forwards requests to the daemon that serves the session, and its responses back, as streams or sockets. */
import { STATUS_CODES } from "node:http";
import type { IncomingMessage } from "node:http";
import { connect } from "node:net";
import type { Socket } from "node:net";
import type { FastifyReply, FastifyRequest } from "fastify";
import { SandboxError } from "@sandkasten/protocol";
import { failureForLog } from "../../failure-for-log.ts";
import { forwardRequest, sendAnswer } from "../preview/forward-request.ts";
import { askForSocket, splice } from "../preview/splice-socket.ts";
import { PEER_HEADER } from "../http/admission/peer-header.ts";
import { upgradeHead } from "../http/connection/upgrades.ts";
import type { Caller } from "../../sessions/services/caller.ts";
import type { PeerTokens } from "./peer-token.ts";

/** They concern one connection, or are set again. */
const LEFT_OUT: ReadonlySet<string> = new Set([
  "authorization",
  "connection",
  "expect",
  "keep-alive",
  "proxy-authorization",
  "proxy-connection",
  "sec-websocket-protocol",
  "te",
  "trailer",
  "transfer-encoding",
  "upgrade",
  PEER_HEADER,
]);

export interface ForwardingOptions {
  readonly tokens: PeerTokens;
  readonly stallTimeoutMs: number;
}

/** Where a session is served, and how to check again. */
export interface Target {
  readonly address: string;
  readonly servedAt: () => Promise<string | undefined>;
}

/** How often to check whether the session is still served there. */
const LOOK_INTERVAL_MS = 1000;

export class Forwarding {
  readonly #options: ForwardingOptions;

  constructor(options: ForwardingOptions) {
    this.#options = options;
  }

  /**
   * When it resolves, the request was answered. Rejects only before any part of a response is sent.
   * A stalled daemon blocks nothing: its requests are cut off as soon as another daemon serves the
   * session.
   */
  async forward(
    request: FastifyRequest,
    reply: FastifyReply,
    { address, servedAt }: Target,
  ): Promise<void> {
    const { hostname, port } = new URL(address);
    const connection = connect(Number(port || 80), hostname.replaceAll(/[[\]]/gu, ""));
    connection.on("error", () => undefined); // Readers get the error.
    reply.raw.once("close", () => connection.destroy());
    const head = upgradeHead(request.raw);
    const look = setInterval(() => {
      servedAt().then(
        (now) => now !== address && connection.destroy(),
        () => connection.destroy(),
      );
    }, LOOK_INTERVAL_MS);
    try {
      if (head === undefined) await this.#request(request, reply, connection, address);
      else await this.#socket(request, reply, { connection, address, head });
    } catch (error) {
      connection.destroy();
      throw new SandboxError(
        "SANDBOX_UNREACHABLE",
        "the daemon that serves this session does not respond; try again in a moment",
        { cause: error, details: { reason: "moved" } },
      );
    } finally {
      clearInterval(look);
    }
  }

  async #request(
    request: FastifyRequest,
    reply: FastifyReply,
    connection: Socket,
    address: string,
  ): Promise<void> {
    const { raw } = request;
    if (raw.headers.expect?.toLowerCase() === "100-continue") reply.raw.writeContinue();
    const answer = await forwardRequest(connection, raw, this.#target(request, address, []));
    await this.#passOn(reply, answer);
  }

  async #socket(
    request: FastifyRequest,
    reply: FastifyReply,
    { connection, address, head }: Upgrade,
  ): Promise<void> {
    const { stallTimeoutMs } = this.#options;
    const protocol = request.raw.headers["sec-websocket-protocol"];
    const upgrade = [
      "Connection",
      "Upgrade",
      "Upgrade",
      "websocket",
      ...(protocol === undefined ? [] : ["Sec-WebSocket-Protocol", protocol]),
    ];
    const {
      answer,
      socket,
      head: first,
    } = await askForSocket(connection, this.#target(request, address, upgrade));
    const client = request.raw.socket;
    if (socket === undefined) {
      reply.raw.shouldKeepAlive = false;
      reply.raw.once("finish", () => client.destroySoon());
      await this.#passOn(reply, answer);
      return;
    }
    reply.hijack();
    reply.raw.statusCode = 101;
    client.write(switchingHead(answer), "latin1");
    client.write(first);
    socket.write(head);
    await splice({ client, application: socket, stallTimeoutMs }).catch((error: unknown) => {
      reply.log.info({ err: failureForLog(error) }, "a forwarded socket broke off");
    });
  }

  async #passOn(reply: FastifyReply, answer: IncomingMessage): Promise<void> {
    const { statusCode = 502, statusMessage = "" } = answer;
    reply.hijack();
    reply.raw.writeHead(statusCode, statusMessage, keptHeaders(answer.rawHeaders));
    reply.raw.flushHeaders();
    await sendAnswer(answer, reply.raw, this.#options.stallTimeoutMs).catch((error: unknown) => {
      reply.log.info({ err: failureForLog(error) }, "a forwarded answer broke off");
    });
  }

  /**
   * SECURITY: the caller's key is not forwarded; the other daemon gets a signed statement of the
   * caller, and checks the caller's permissions again. A header of that name from outside is
   * dropped. Guarded by forwarded-requests.test.ts and tests/docker/several-daemons.test.ts.
   */
  #target(request: FastifyRequest, address: string, more: readonly string[]) {
    const { raw, originalUrl: url, method } = request;
    const caller = callerOf(request);
    const word = this.#options.tokens.sign({ method, url }, address, {
      ...(caller !== undefined && { caller }),
    });
    // A visitor with a link may have a password for the application.
    const { authorization } = raw.headers;
    const own = caller === undefined && authorization !== undefined;
    return {
      target: url,
      headers: [
        ...keptHeaders(raw.rawHeaders),
        ...(own ? ["Authorization", authorization] : []),
        ...more,
        PEER_HEADER,
        word,
      ],
      stallTimeoutMs: this.#options.stallTimeoutMs,
      sessionId: "",
      port: 0,
    };
  }
}

interface Upgrade {
  readonly connection: Socket;
  readonly address: string;
  /** What the client sent after its request. */
  readonly head: Buffer;
}

function callerOf({ caller, preview }: FastifyRequest): Caller | undefined {
  if (preview === undefined) return caller;
  return preview.visitor === "link" ? undefined : preview.visitor;
}

function keptHeaders(rawHeaders: readonly string[]): string[] {
  const kept: string[] = [];
  for (let index = 0; index < rawHeaders.length; index += 2) {
    const name = rawHeaders[index] ?? "";
    if (!LEFT_OUT.has(name.toLowerCase())) kept.push(name, rawHeaders[index + 1] ?? "");
  }
  return kept;
}

function switchingHead(answer: IncomingMessage): string {
  const lines = [
    `HTTP/1.1 101 ${STATUS_CODES[101] ?? ""}`,
    "Connection: Upgrade",
    "Upgrade: websocket",
  ];
  const headers = keptHeaders(answer.rawHeaders);
  for (let index = 0; index < headers.length; index += 2)
    lines.push(`${headers[index] ?? ""}: ${headers[index + 1] ?? ""}`);
  const protocol = answer.headers["sec-websocket-protocol"];
  if (protocol !== undefined) lines.push(`Sec-WebSocket-Protocol: ${protocol}`);
  return `${lines.join("\r\n")}\r\n\r\n`;
}
