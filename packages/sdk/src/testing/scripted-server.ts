/** A real HTTP server with scripted responses. */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo, Socket } from "node:net";

/** What a client sent. */
export interface ReceivedRequest {
  readonly method: string;
  /** Path and query. */
  readonly url: string;
  readonly headers: IncomingMessage["headers"];
  readonly body: Buffer;
}

/** Answers one request. */
export type Answer = (response: ServerResponse, request: ReceivedRequest) => void | Promise<void>;

/** Each request gets the next response; any further request gets an error that no test expects. */
export class ScriptedServer implements AsyncDisposable {
  readonly requests: ReceivedRequest[] = [];
  readonly server: Server;
  readonly #answers: Answer[];
  readonly #sockets = new Set<Socket>();

  private constructor(answers: readonly Answer[]) {
    this.#answers = [...answers];
    this.server = createServer((request, response) => void this.#serve(request, response));
    this.server.on("connection", (socket) => {
      this.#sockets.add(socket);
      socket.once("close", () => this.#sockets.delete(socket));
    });
  }

  static async start(...answers: readonly Answer[]): Promise<ScriptedServer> {
    const scripted = new ScriptedServer(answers);
    const { promise, resolve } = Promise.withResolvers<void>();
    scripted.server.listen(0, "127.0.0.1", resolve);
    await promise;
    return scripted;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.server.address() as AddressInfo).port}`;
  }

  /** Method and URL of all requests. */
  get lines(): readonly string[] {
    return this.requests.map(({ method, url }) => `${method} ${url}`);
  }

  /** The JSON of a request's body. */
  json(index: number): unknown {
    return JSON.parse(this.requests[index]!.body.toString());
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const socket of this.#sockets) socket.destroy();
    await new Promise((resolve) => this.server.close(resolve));
  }

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const chunks: Buffer[] = [];
    try {
      for await (const chunk of request) chunks.push(chunk as Buffer);
    } catch {
      // The client disconnected while sending, so there is no connection to respond on.
      return;
    }
    const { method = "", url = "", headers } = request;
    const received = { method, url, headers, body: Buffer.concat(chunks) };
    this.requests.push(received);
    const answer = this.#answers.shift() ?? json(418, { error_code: "NO_ANSWER_SCRIPTED" });
    await answer(response, received);
  }
}

/** Responds with JSON. */
export function json(
  status: number,
  body: unknown,
  headers: Readonly<Record<string, string>> = {},
): Answer {
  return (response) => {
    response.writeHead(status, { "Content-Type": "application/json", ...headers });
    response.end(JSON.stringify(body));
  };
}

/** Responds with one of the daemon's errors. */
export function failure(
  status: number,
  code: string,
  headers: Readonly<Record<string, string>> = {},
): Answer {
  const body = { error_code: code, message: `it is ${code}`, request_id: "req_1" };
  return json(status, body, headers);
}

/** Cuts the connection without a response. */
export const cut: Answer = (response) => void response.destroy();

/** Responds with bytes. */
export function bytes(
  body: string | Uint8Array,
  status = 200,
  headers: Readonly<Record<string, string>> = {},
): Answer {
  return (response) => {
    response.writeHead(status, { "Content-Type": "application/octet-stream", ...headers });
    response.end(body);
  };
}

/** One event, as the daemon writes it. */
export function event(type: string, data: unknown): string {
  return `event: ${type}\ndata: ${JSON.stringify(data)}\n\n`;
}

/** What happens after the last event of a response. */
export type EventsEnd = "end" | "cut" | "stay";

/** Responds with events, and then ends normally, is cut off, or stays open. */
export function events(
  texts: readonly string[],
  after: EventsEnd = "end",
  headers: Readonly<Record<string, string>> = {},
): Answer {
  return (response) => {
    response.writeHead(200, { "Content-Type": "text/event-stream", ...headers });
    response.write(texts.join(""), () => {
      if (after === "end") response.end();
      if (after === "cut") response.destroy();
    });
    response.flushHeaders();
  };
}
