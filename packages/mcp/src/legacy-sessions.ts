/** Clients of the protocol up to 2025-11-25, which has sessions: each has separate sandboxes. */
import { randomUUID } from "node:crypto";
import {
  isLegacyRequest,
  WebStandardStreamableHTTPServerTransport,
} from "@modelcontextprotocol/server";
import { buildServer } from "./build-server.ts";
import { McpSession } from "./mcp-session.ts";
import type { McpSessionOptions } from "./mcp-session.ts";
import { untilRead } from "./until-read.ts";

/**
 * SECURITY: bounds the cost of clients that open sessions without end. Guarded by
 * mcp-attack.serial.test.ts.
 */
const MAX_SESSIONS = 256;
export const MAX_BODY_BYTES = 16 * 1024 * 1024;
const IDLE_MS = 30 * 60_000;
const SWEEP_MS = 60_000;

interface LegacySession {
  readonly session: McpSession;
  readonly transport: WebStandardStreamableHTTPServerTransport;
  usedMs: number;
  /** Open requests, including notification streams. */
  open: number;
}

export class LegacySessions {
  readonly #options: McpSessionOptions;
  readonly #sessions = new Map<string, LegacySession>();
  readonly #sweep: NodeJS.Timeout;

  constructor(options: McpSessionOptions) {
    this.#options = options;
    this.#sweep = setInterval(() => this.#endIdle(), SWEEP_MS).unref();
  }

  /** Undefined for a request of the newer protocol. */
  async answer(request: Request): Promise<Response | undefined> {
    const id = request.headers.get("mcp-session-id");
    if (id !== null) {
      const known = this.#sessions.get(id);
      return known === undefined ? noSession() : await this.#use(known, request);
    }
    if (!(await isLegacyRequest(request, undefined, { maxRequestBodySize: MAX_BODY_BYTES })))
      return undefined;
    if (request.method !== "POST") return noSession();
    if (this.#sessions.size >= MAX_SESSIONS)
      return errorBody(503, -32_000, "Too many sessions are open. End some, or try again later.");
    return await this.#use(await this.#open(), request);
  }

  async close(): Promise<void> {
    clearInterval(this.#sweep);
    await Promise.all([...this.#sessions.values()].map((one) => this.#end(one)));
  }

  async #open(): Promise<LegacySession> {
    const session = new McpSession(`mcp-${randomUUID()}`, this.#options);
    const opened: LegacySession = {
      session,
      transport: new WebStandardStreamableHTTPServerTransport({
        sessionIdGenerator: () => randomUUID(),
        maxRequestBodySize: MAX_BODY_BYTES,
        onsessioninitialized: (id) => void this.#sessions.set(id, opened),
        onsessionclosed: () => void this.#end(opened),
      }),
      usedMs: performance.now(),
      open: 0,
    };
    await buildServer(session, "legacy").connect(opened.transport);
    return opened;
  }

  async #use(one: LegacySession, request: Request): Promise<Response> {
    one.usedMs = performance.now();
    one.open += 1;
    const leave = (): void => {
      one.open -= 1;
      one.usedMs = performance.now();
    };
    try {
      const response = await one.transport.handleRequest(request);
      // Transports that did not become a session, for example because the first request is not
      // `initialize`, are closed.
      if (one.transport.sessionId === undefined) await one.session.close();
      return untilRead(response, leave);
    } catch (error) {
      leave();
      throw error;
    }
  }

  #endIdle(): void {
    const before = performance.now() - IDLE_MS;
    for (const one of this.#sessions.values())
      if (one.open === 0 && one.usedMs < before) void this.#end(one);
  }

  async #end(one: LegacySession): Promise<void> {
    const { sessionId } = one.transport;
    if (sessionId !== undefined) this.#sessions.delete(sessionId);
    await one.session.close();
    await one.transport.close();
  }
}

/** SECURITY: an ended session and one that never existed get the same response. */
function noSession(): Response {
  return errorBody(404, -32_001, "There is no such session. Start a new one with initialize.");
}

function errorBody(status: number, code: number, message: string): Response {
  return Response.json({ jsonrpc: "2.0", error: { code, message }, id: null }, { status });
}
