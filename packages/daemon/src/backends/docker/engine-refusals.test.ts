/** An engine that refuses to run a program, played by an HTTP server. */
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { createServer, type Server } from "node:http";
import type { Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { Engine } from "./engine.ts";

let directory: string;
let server: Server;
let engine: Engine;
const connections: Socket[] = [];

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), "sandkasten-test-"));
  const socketPath = join(directory, "engine.sock");
  server = createServer((request, response) => {
    const isStart = request.url?.endsWith("/start") === true;
    const body = JSON.stringify(
      isStart ? { message: "Container c is not running: Removal In Progress" } : { Id: "e1" },
    );
    response.writeHead(isStart ? 500 : 201, { "content-type": "application/json" }).end(body);
  });
  server.on("connection", (socket) => connections.push(socket));
  server.keepAliveTimeout = 0;
  await once(server.listen(socketPath), "listening");
  engine = new Engine({ host: `unix://${socketPath}` });
});
afterAll(async () => {
  server.closeAllConnections();
  await new Promise((resolve) => server.close(resolve));
  await rm(directory, { recursive: true, force: true });
});

test("a program that the engine refuses to start leaves no connection open", async () => {
  const options = { Cmd: ["true"] };
  expect(await engine.exec("c", options, new AbortController().signal)).toBe("not running");
  expect(connections).toHaveLength(2);
  for (const socket of connections) if (!socket.closed) await once(socket, "close");
});
