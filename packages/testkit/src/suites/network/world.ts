/** The servers that the suite's sandboxes may reach, all on loopback. */
import { createHash } from "node:crypto";
import { createServer as createHttpServer } from "node:http";
import type { IncomingMessage, ServerResponse } from "node:http";
import { createServer as createTlsServer } from "node:https";
import { createServer } from "node:net";
import type { AddressInfo, Server, Socket } from "node:net";
import { finished } from "node:stream/promises";
import type { TestAuthority } from "./authority.ts";

/** One block of a large file. */
const BLOCK = Buffer.alloc(1 << 20, "0123456789abcdef");

export interface Served {
  readonly port: number;
  /** The currently open connections. */
  readonly sockets: ReadonlySet<Socket>;
  readonly close: () => Promise<void>;
}

/** Listens on a free port of loopback. */
async function listen(server: Server): Promise<Served> {
  const sockets = new Set<Socket>();
  server.on("connection", (socket: Socket) => {
    sockets.add(socket);
    socket.on("error", () => undefined);
    socket.once("close", () => sockets.delete(socket));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", 1024, resolve));
  const { port } = server.address() as AddressInfo;
  const close = async (): Promise<void> => {
    for (const socket of sockets) socket.destroy();
    await new Promise((resolve) => server.close(resolve));
  };
  return { port, sockets, close };
}

/** Over TLS when there is a certificate. */
export function serveHttp(
  answer: (request: IncomingMessage, response: ServerResponse) => Promise<void> | void,
  certificate?: TestAuthority["server"],
): Promise<Served> {
  const onRequest = (request: IncomingMessage, response: ServerResponse): void => {
    void Promise.resolve(answer(request, response)).catch(() => response.destroy());
  };
  return listen(
    certificate === undefined
      ? createHttpServer(onRequest)
      : createTlsServer(certificate, onRequest),
  );
}

export function serveTcp(onSocket: (socket: Socket) => void): Promise<Served> {
  return listen(createServer({ allowHalfOpen: true }, onSocket));
}

/** Sends a file of this many mebibytes at the reader's pace. */
export async function sendLarge(response: ServerResponse, mebibytes: number): Promise<void> {
  response.writeHead(200, { "content-length": mebibytes * BLOCK.byteLength });
  for (let sent = 0; sent < mebibytes && !response.destroyed; sent++)
    if (!response.write(BLOCK)) await new Promise((resolve) => response.once("drain", resolve));
  response.end();
  await finished(response);
}

export function hashOfLarge(mebibytes: number): string {
  const hash = createHash("sha256");
  for (let hashed = 0; hashed < mebibytes; hashed++) hash.update(BLOCK);
  return hash.digest("hex");
}

/** Serves the files of a map, by path. */
export function serveFiles(
  files: ReadonlyMap<string, Uint8Array | string>,
  asked: (path: string) => void = () => undefined,
  certificate?: TestAuthority["server"],
): Promise<Served> {
  const answer = (request: IncomingMessage, response: ServerResponse): void => {
    const path = new URL(request.url ?? "/", "http://x").pathname;
    asked(path);
    const content = files.get(decodeURIComponent(path));
    if (content === undefined) response.writeHead(404);
    else if (path.endsWith("/")) response.setHeader("content-type", "text/html");
    response.end(content);
  };
  return serveHttp(answer, certificate);
}
