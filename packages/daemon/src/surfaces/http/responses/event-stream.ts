/** Server-sent events: a response that lasts as long as there are events. */
import type { FastifyReply } from "fastify";
import { ownTurn } from "../../../event-loop-turn.ts";
import { failureForLog } from "../../../failure-for-log.ts";
import { ClientGone, ResponseWriter } from "./response-writer.ts";
import { sendHead } from "./send-head.ts";
import type { TextEvents } from "./text-events.ts";
import { whenClosed } from "./when-closed.ts";
import { stopping } from "../connection/shutdown.ts";
import type { Shutdown } from "../connection/shutdown.ts";
import type { ErrorFormat } from "../error-format.ts";

/** Events that end a stream. */
const LAST_EVENTS: ReadonlySet<string> = new Set(["done", "error"]);

export interface EventStreamContext {
  /** How long a client may stall while reading. */
  readonly stallTimeoutMs: number;
  readonly pingIntervalMs: number;
  readonly shutdown: Shutdown;
  readonly errorFormat: ErrorFormat;
}

export class EventStream {
  readonly #response: FastifyReply["raw"];
  readonly #writer: ResponseWriter;
  readonly #ended = new AbortController();
  readonly #ping: NodeJS.Timeout;
  readonly #forgetShutdown: () => void;
  #pinging = false;
  /** Whether the last event was sent. */
  #sentLast = false;
  #stopping = false;

  private constructor(reply: FastifyReply, context: EventStreamContext) {
    this.#response = reply.raw;
    this.#writer = new ResponseWriter(reply.raw, context.stallTimeoutMs);
    this.#forgetShutdown = context.shutdown.listen(() => {
      this.#stopping = true;
      this.#ended.abort();
    });
    whenClosed(reply.raw, () => this.#ended.abort());
    this.#ping = setInterval(() => void this.#sendPing(), context.pingIntervalMs);
  }

  /**
   * Responds at once, and ends when the work has. Never rejects: later failures are sent as the
   * event `error`.
   */
  static async serve(
    reply: FastifyReply,
    context: EventStreamContext,
    work: (stream: EventStream) => Promise<void>,
    headers: Readonly<Record<string, string>> = {},
  ): Promise<void> {
    sendHead(reply, 200, {
      ...headers,
      "Content-Type": "text/event-stream; charset=utf-8",
      // A buffering proxy would hold events back.
      "X-Accel-Buffering": "no",
    });
    reply.raw.flushHeaders();
    const stream = new EventStream(reply, context);
    try {
      await work(stream);
    } catch (error) {
      if (!(error instanceof ClientGone) && !stream.signal.aborted) {
        const { code, message, hidden } = context.errorFormat.of(error, reply.request.id);
        if (hidden) reply.log.error({ err: failureForLog(error) }, "a stream failed");
        await stream.#sendLast("error", { error: message, error_code: code });
      }
    } finally {
      await stream.#sendStopping();
      stream.#close();
    }
  }

  /** Fires when the client has disconnected, or the daemon stops. */
  get signal(): AbortSignal {
    return this.#ended.signal;
  }

  /**
   * Sends one event, in one write. Rejects with ClientGone if the client has disconnected.
   *
   * SECURITY: dozens of streams can have hundreds of events for each of their clients at the same time;
   * they share turns with other work (threat: slow clients). Guarded by event-stream.test.ts.
   */
  async send(event: string, data: object, id?: string): Promise<void> {
    await ownTurn();
    if (this.signal.aborted) throw new ClientGone("the client has disconnected");
    const line = id === undefined ? "" : `id: ${id}\n`;
    if (LAST_EVENTS.has(event)) this.#sentLast = true;
    await this.#writer.write(`event: ${event}\n${line}data: ${oneLine(data)}\n\n`);
  }

  /** Sends at least one event, each in one write; clears them once their memory is free again. */
  async sendTexts(events: TextEvents): Promise<void> {
    if (this.signal.aborted) throw new ClientGone("the client has disconnected");
    await this.#writer.writeWhole(...events.encoded);
    events.clear();
  }

  /** Without a last event, a stopping daemon would look like a command that ended. */
  async #sendStopping(): Promise<void> {
    if (!this.#stopping || this.#sentLast || this.#response.destroyed) return;
    const { code, message } = stopping("the work behind this stream");
    const data = oneLine({ error: message, error_code: code });
    try {
      await this.#writer.write(`event: error\ndata: ${data}\n\n`);
    } catch (error) {
      if (!(error instanceof ClientGone)) throw error;
    }
  }

  /** A client that has disconnected needs no last event. */
  async #sendLast(event: string, data: object): Promise<void> {
    try {
      await this.send(event, data);
    } catch (error) {
      if (!(error instanceof ClientGone)) throw error;
    }
  }

  #close(): void {
    clearInterval(this.#ping);
    this.#forgetShutdown();
    this.#response.end();
  }

  /** Regular traffic keeps proxies from closing the connection as dead. */
  async #sendPing(): Promise<void> {
    if (this.#pinging || this.signal.aborted) return;
    this.#pinging = true;
    try {
      await this.#writer.write(": ping\n\n");
    } catch (error) {
      if (!(error instanceof ClientGone)) throw error;
    } finally {
      this.#pinging = false;
    }
  }
}

/** Common line readers also split on these, which JSON does not escape. */
const LINE_BREAKS = ["\u0085", "\u2028", "\u2029"];

function oneLine(data: object): string {
  const text = JSON.stringify(data);
  // Three plain searches of a long text are much faster than one regular expression.
  if (!LINE_BREAKS.some((sign) => text.includes(sign))) return text;
  return text.replaceAll(
    /[\u0085\u2028\u2029]/g,
    (sign) => `\\u${sign.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );
}
