/** A real WebSocket server that plays the daemon's side of a terminal, as scripted by a test. */
import type { ServerResponse } from "node:http";
import { once } from "node:events";
import { type WebSocket, WebSocketServer } from "ws";
import type { PtyServerMessage } from "@sandkasten/protocol";
import type { ScriptedServer } from "./scripted-server.ts";

/** One end of a connection. */
export class Terminal {
  readonly url: string;
  readonly offered: readonly string[];
  readonly received: (string | Buffer)[] = [];
  readonly closed: Promise<number>;
  readonly #socket: WebSocket;

  constructor(socket: WebSocket, url: string, offered: readonly string[]) {
    this.#socket = socket;
    this.url = url;
    this.offered = offered;
    socket.on("message", (data: Buffer, isBinary) => {
      this.received.push(isBinary ? data : data.toString());
    });
    this.closed = once(socket, "close").then(([code]) => code as number);
  }

  send(message: PtyServerMessage): void {
    this.#socket.send(JSON.stringify(message));
  }

  print(bytes: string | Uint8Array): void {
    this.#socket.send(Buffer.from(bytes));
  }

  close(code: number, reason: string): void {
    this.#socket.close(code, reason);
  }

  /** Cuts the connection without a close frame. */
  terminate(): void {
    this.#socket.terminate();
  }

  /** Resolves when this many messages have arrived. */
  async messages(count: number): Promise<readonly (string | Buffer)[]> {
    while (this.received.length < count) await once(this.#socket, "message");
    return this.received;
  }
}

/** Answers upgrades with a script; the scripted server handles other requests. */
export function serveTerminals(server: ScriptedServer, script: (terminal: Terminal) => void): void {
  const sockets = new WebSocketServer({ noServer: true });
  server.server.on("upgrade", (request, socket, head) => {
    const offered = (request.headers["sec-websocket-protocol"] ?? "").split(/, */);
    sockets.handleUpgrade(request, socket, head, (webSocket) => {
      script(new Terminal(webSocket, request.url ?? "", offered));
    });
  });
}

/** Answers upgrades with a status. */
export function refuseTerminals(
  server: ScriptedServer,
  status: ServerResponse["statusCode"],
): void {
  server.server.on("upgrade", (_request, socket) => {
    socket.end(`HTTP/1.1 ${status} No\r\nConnection: close\r\nContent-Length: 0\r\n\r\n`);
  });
}
