/** Server-sent events: an answer that goes on as long as there is something to tell. */
import type { FastifyReply } from "fastify";
import { failureForLog } from "../../../failure-for-log.ts";
import { ClientGone, ResponseWriter } from "./response-writer.ts";
import { sendHead } from "./send-head.ts";
import { stopping } from "../connection/shutdown.ts";
import type { Shutdown } from "../connection/shutdown.ts";
import type { ErrorFormat } from "../error-format.ts";

/** Events after which nothing comes. */
const LAST_EVENTS: ReadonlySet<string> = new Set(["done", "error"]);

export interface EventStreamContext {
  /** How long a client may take to go on reading. */
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
  /** The last event was sent. */
  #told = false;
  #stopping = false;

  private constructor(reply: FastifyReply, context: EventStreamContext) {
    this.#response = reply.raw;
    this.#writer = new ResponseWriter(reply.raw, context.stallTimeoutMs);
    this.#forgetShutdown = context.shutdown.listen(() => {
      this.#stopping = true;
      this.#ended.abort();
    });
    reply.raw.once("close", () => this.#ended.abort());
    this.#ping = setInterval(() => void this.#sendPing(), context.pingIntervalMs);
  }

  /**
   * Answers at once that events will come, and ends when the work has. Never rejects: what fails now
   * is told by the event `error`.
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
      // A proxy that collects an answer before passing it on would hold events back.
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
      await stream.#tellStopping();
      stream.#close();
    }
  }

  /** Fires when nobody listens any more, or the daemon stops. */
  get signal(): AbortSignal {
    return this.#ended.signal;
  }

  /** Sends one event, in one write. Rejects with ClientGone when there is nobody to send it to. */
  async send(event: string, data: object, id?: string): Promise<void> {
    if (this.signal.aborted) throw new ClientGone("nobody listens any more");
    const line = id === undefined ? "" : `id: ${id}\n`;
    if (LAST_EVENTS.has(event)) this.#told = true;
    await this.#writer.write(`event: ${event}\n${line}data: ${oneLine(data)}\n\n`);
  }

  /** Without a last event nobody could tell a daemon that stops from a command that ended. */
  async #tellStopping(): Promise<void> {
    if (!this.#stopping || this.#told || this.#response.destroyed) return;
    const { code, message } = stopping("what it told of");
    const data = oneLine({ error: message, error_code: code });
    try {
      await this.#writer.write(`event: error\ndata: ${data}\n\n`);
    } catch (error) {
      if (!(error instanceof ClientGone)) throw error;
    }
  }

  /** Whoever has left meanwhile needs no last word. */
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

  /** Something must go over the wire now and then, or those between would take it for dead. */
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

/** Common readers of lines split on these, beside those that JSON escapes. */
const LINE_BREAKS = ["\u0085", "\u2028", "\u2029"];

function oneLine(data: object): string {
  const text = JSON.stringify(data);
  // Three plain searches of a long text take a small part of the time of one expression.
  if (!LINE_BREAKS.some((sign) => text.includes(sign))) return text;
  return text.replaceAll(
    /[\u0085\u2028\u2029]/g,
    (sign) => `\\u${sign.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );
}
