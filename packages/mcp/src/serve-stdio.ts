/** One client over stdin and stdout; its sandboxes end with it. */
import { randomUUID } from "node:crypto";
import type { Readable, Writable } from "node:stream";
import { StdioServerTransport, serveStdio } from "@modelcontextprotocol/server/stdio";
import { buildServer, notifyChange } from "./build-server.ts";
import { McpSession } from "./mcp-session.ts";
import type { McpSessionOptions } from "./mcp-session.ts";

export interface StdioServerOptions extends McpSessionOptions {
  readonly stdin: Readable;
  readonly stdout: Writable;
  /** Aborts the connection. */
  readonly signal: AbortSignal;
}

/** Enough for a message with a file's content; a larger one closes the connection. */
const MAX_MESSAGE_BYTES = 32 * 1024 * 1024;
const MAX_SUBSCRIPTIONS = 256;

/** Resolves when the client has disconnected and its sandboxes are destroyed. */
export async function serveStdioSession(options: StdioServerOptions): Promise<void> {
  await using session = new McpSession(`mcp-${randomUUID()}`, options);
  const transport = new StdioServerTransport(options.stdin, options.stdout, {
    maxBufferSize: MAX_MESSAGE_BYTES,
  });
  const gone = Promise.withResolvers<void>();
  options.stdin.once("close", () => gone.resolve());
  options.stdin.once("end", () => gone.resolve());
  options.stdout.once("error", () => gone.resolve());
  const handle = serveStdio(
    ({ era }) => {
      const server = buildServer(session, era);
      // The connection itself tracks the subscriptions of a client of the newer protocol.
      if (era === "modern" && session.hasFiles)
        session.changes.listen((uri) => void notifyChange(server, uri));
      return server;
    },
    {
      transport,
      maxSubscriptions: MAX_SUBSCRIPTIONS,
      onerror: (error) => options.onFailure("a message could not be served", error),
    },
  );
  options.signal.addEventListener("abort", () => gone.resolve(), { once: true });
  if (options.signal.aborted) gone.resolve();
  await gone.promise;
  await handle.close();
}
