/** Server-sent events: an answer that goes on as long as there is something to tell. */
import type { FastifyReply } from "fastify";
import type { HttpContext } from "./context.ts";
import { failureForLog } from "./error-answer.ts";
import { ClientGone, ResponseWriter } from "./response-writer.ts";
import { sendHead } from "./send-head.ts";

export class EventStream {
  readonly #response: FastifyReply["raw"];
  readonly #writer: ResponseWriter;
  readonly #ended = new AbortController();
  readonly #ping: NodeJS.Timeout;
  readonly #forgetShutdown: () => void;
  #pinging = false;

  private constructor(reply: FastifyReply, context: HttpContext) {
    this.#response = reply.raw;
    this.#writer = new ResponseWriter(reply.raw, context.stallTimeoutMs);
    this.#forgetShutdown = context.shutdown.listen(() => this.#ended.abort());
    reply.raw.once("close", () => this.#ended.abort());
    this.#ping = setInterval(() => void this.#sendPing(), context.pingIntervalMs);
  }

  /**
   * Answers at once that events will come, and ends when the work has. Never rejects: what fails now
   * is told by the event `error`.
   */
  static async serve(
    reply: FastifyReply,
    context: HttpContext,
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
        const { body, hidden } = context.answers.of(error, reply.request.id);
        if (hidden) reply.log.error({ err: failureForLog(error) }, "a stream failed");
        await stream.#sendLast("error", { error: body.message, error_code: body.error_code });
      }
    } finally {
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
    await this.#writer.write(`event: ${event}\n${line}data: ${JSON.stringify(data)}\n\n`);
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
