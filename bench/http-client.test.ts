import { createServer } from "node:http";
import type { RequestListener } from "node:http";
import { once } from "node:events";
import type { AddressInfo } from "node:net";
import { expect, onTestFinished, test } from "vitest";
import { HttpClient } from "./http-client.ts";

async function clientOf(listener: RequestListener): Promise<HttpClient> {
  const server = createServer(listener).listen(0, "127.0.0.1");
  await once(server, "listening");
  const client = new HttpClient(`http://127.0.0.1:${(server.address() as AddressInfo).port}`, "k");
  onTestFinished(async () => {
    await client.close();
    server.close();
  });
  return client;
}

test("call() sends its key and JSON, and rejects with the message of a refusal", async () => {
  const client = await clientOf((request, response) => {
    if (request.headers.authorization !== "Bearer k") response.writeHead(401);
    if (request.url === "/bad") response.writeHead(418).end("short and stout");
    else request.pipe(response);
  });
  await expect(client.call("POST", "/", { a: [1] })).resolves.toEqual({ a: [1] });
  await expect(client.call("GET", "/bad")).rejects.toThrow(
    "GET /bad was answered with 418: short and stout",
  );
});

test("list() follows all pages", async () => {
  const client = await clientOf((request, response) => {
    const isLast = request.url?.endsWith("&cursor=a%20b") === true;
    if (!isLast) response.setHeader("X-Next-Cursor", "a b");
    response.end(isLast ? "[3]" : "[1,2]");
  });
  await expect(client.list("/?limit=2")).resolves.toEqual([1, 2, 3]);
});

test("upload() sends exactly this many bytes and read() counts those that arrive", async () => {
  let stored = 0;
  const client = await clientOf((request, response) => {
    if (request.method === "GET") response.end(Buffer.alloc(stored));
    else {
      request.on("data", (piece: Buffer) => {
        stored += piece.byteLength;
      });
      request.on("end", () => response.end());
    }
  });
  await client.upload("/", 1_000_001, Buffer.alloc(65_536));
  expect(stored).toBe(1_000_001);
  let seen = 0;
  const received = await client.read("GET", "/", undefined, (piece) => {
    seen += piece.byteLength;
  });
  expect([received, seen]).toEqual([1_000_001, 1_000_001]);
});
