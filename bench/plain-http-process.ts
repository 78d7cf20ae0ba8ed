/** The far end of `PlainHttp`: `node:http`, the pipe of a `cat` and a file, and nothing else. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { stat } from "node:fs/promises";
import { createServer } from "node:http";
import type { IncomingMessage, ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { pipeline } from "node:stream/promises";

const path = process.argv[2];
if (path === undefined) throw new Error("usage: plain-http-process.ts FILE");

const server = createServer((request, response) => {
  const work = request.method === "PUT" ? take(path, request) : give(path, response);
  work.then(
    () => response.end(),
    (error: unknown) => response.destroy(error instanceof Error ? error : undefined),
  );
});

/** Pipes the body to a process that writes it to the file. */
async function take(file: string, request: IncomingMessage): Promise<void> {
  const argv = ["-c", 'exec cat > "$0"', file];
  const cat = spawn("sh", argv, { stdio: ["pipe", "ignore", "inherit"] });
  const closed = once(cat, "close");
  await pipeline(request, cat.stdin);
  await closed;
}

/** Pipes the file from a process that reads it. */
async function give(file: string, response: ServerResponse): Promise<void> {
  const cat = spawn("cat", [file], { stdio: ["ignore", "pipe", "inherit"] });
  response.setHeader("Content-Length", (await stat(file)).size);
  await pipeline(cat.stdout, response);
}

server.listen(0, "127.0.0.1", () => process.send?.((server.address() as AddressInfo).port));
process.once("disconnect", () => process.exit(0));
