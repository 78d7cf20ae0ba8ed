/** The HTTP layer with a test web server behind the ports of its sessions. */
import { createServer, request as httpRequest } from "node:http";
import type { IncomingHttpHeaders, IncomingMessage, RequestListener, Server } from "node:http";
import { connect } from "node:net";
import type { AddressInfo, Server as TcpServer, Socket } from "node:net";
import { Duplex } from "node:stream";
import type { PortConnection } from "../../ports/channel.ts";
import { HttpFixture } from "./http-fixture.ts";
import type { HttpFixtureOptions } from "./http-fixture.ts";

export interface Ask {
  readonly method?: string;
  readonly path?: string;
  readonly headers?: Readonly<Record<string, string | string[]>>;
  readonly body?: string | Uint8Array;
}

export interface PreviewAnswer {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly rawHeaders: readonly string[];
  readonly text: string;
}

export class PreviewFixture implements AsyncDisposable {
  readonly http: HttpFixture;
  readonly id: string;
  /** Open connections to the web server. */
  readonly sockets: ReadonlySet<Socket>;
  readonly #server: TcpServer;

  private constructor(http: HttpFixture, id: string, server: TcpServer, sockets: Set<Socket>) {
    this.http = http;
    this.id = id;
    this.sockets = sockets;
    this.#server = server;
  }

  /** The server listens on port 8000 of every session; other ports are closed. */
  static async start(
    served: RequestListener | TcpServer,
    options: HttpFixtureOptions = {},
  ): Promise<PreviewFixture> {
    const server: TcpServer | Server = typeof served === "function" ? createServer(served) : served;
    const sockets = new Set<Socket>();
    server.on("connection", (socket: Socket) => {
      sockets.add(socket);
      socket.on("error", () => undefined).once("close", () => sockets.delete(socket));
    });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    const { port } = server.address() as AddressInfo;
    const http = await HttpFixture.start({
      ...options,
      replace: {
        ports: {
          /** The core decides who may connect; the fixture decides where to. */
          async connect(visitor, sessionId, asked, signal) {
            const open = await this.connect!(visitor, sessionId, asked, signal);
            return { connection: await dial(port), [Symbol.dispose]: () => open[Symbol.dispose]() };
          },
        },
      },
    });
    const id = await http.createSession();
    const fixture = new PreviewFixture(http, id, server, sockets);
    await fixture.listen(id);
    return fixture;
  }

  /** Starts a listener on port 8000, for the core to connect to. */
  async listen(id: string): Promise<void> {
    await this.http.call(`/v1/sessions/${id}/execs`, { body: { cmd: ["echo-server", "8000"] } });
    const ports = async (): Promise<unknown[]> =>
      (await this.http.call(`/v1/sessions/${id}/ports`)).json.ports;
    while ((await ports()).length === 0) await new Promise(setImmediate);
  }

  /** The host name of a port of the session. */
  host(port = 8000, id = this.id): string {
    return `${port}-${id.replace("_", "-")}.localhost:${this.http.port}`;
  }

  /** A token for the port. */
  async token(port = 8000, id = this.id): Promise<string> {
    const { json } = await this.http.call(`/v1/sessions/${id}/ports/${port}/url`, { body: {} });
    return new URL(json.url as string).searchParams.get("sandkasten_token") ?? "";
  }

  /** A request to a preview host, without name resolution. */
  async ask(host: string, ask: Ask = {}): Promise<PreviewAnswer> {
    const answer = await this.open(host, ask);
    const pieces: Buffer[] = await Array.fromAsync(answer as AsyncIterable<Buffer>);
    const { statusCode = 0, headers, rawHeaders } = answer;
    return { status: statusCode, headers, rawHeaders, text: Buffer.concat(pieces).toString() };
  }

  /** The same, with the body unread. */
  async open(host: string, { method, path, headers, body }: Ask = {}): Promise<IncomingMessage> {
    const request = httpRequest({
      host: "127.0.0.1",
      port: this.http.port,
      method: method ?? "GET",
      path: path ?? "/",
      headers: { host, ...headers },
    });
    const { promise, resolve, reject } = Promise.withResolvers<IncomingMessage>();
    request.once("response", resolve).once("error", reject).end(body);
    return await promise;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const socket of this.sockets) socket.destroy();
    await new Promise((resolve) => this.#server.close(resolve));
    await this.http[Symbol.asyncDispose]();
  }
}

async function dial(port: number): Promise<PortConnection> {
  const socket = connect({ port, host: "127.0.0.1", allowHalfOpen: true });
  await new Promise((resolve, reject) => socket.once("connect", resolve).once("error", reject));
  socket.on("error", () => undefined);
  const { readable, writable } = Duplex.toWeb(socket);
  return {
    readable: readable as unknown as ReadableStream<Uint8Array>,
    writable: writable as WritableStream<Uint8Array>,
  };
}
