/** An MCP server for tests: over stdio as `node mcp-server.ts [EXTRA_TOOLS]`, and over HTTP in this process. */
import { once } from "node:events";
import { createServer } from "node:http";
import type { IncomingHttpHeaders } from "node:http";
import type { AddressInfo } from "node:net";
import { createMcpHandler, McpServer } from "@modelcontextprotocol/server";
import { serveStdio } from "@modelcontextprotocol/server/stdio";
import { z } from "zod";

function testServer(): McpServer {
  const server = new McpServer({ name: "test", version: "1.0.0" });
  const text = (value: string) => ({ content: [{ type: "text" as const, text: value }] });
  server.registerTool(
    "add",
    { description: "Adds two numbers.", inputSchema: z.object({ a: z.number(), b: z.number() }) },
    ({ a, b }) => text(String(a + b)),
  );
  server.registerTool("variables", { description: "Names of all variables." }, () =>
    text(Object.keys(process.env).toSorted().join(",")),
  );
  server.registerTool("secret", { description: "One variable." }, () =>
    text(process.env["TOKEN"] ?? "none"),
  );
  server.registerTool("refuse", { description: "Always fails." }, () => ({
    ...text("Not today."),
    isError: true,
  }));
  server.registerTool("long", { description: "A long text." }, () => text("y".repeat(1_000_000)));
  server.registerTool("die", { description: "Ends the server." }, () => process.exit(1));
  server.registerTool(
    "wait",
    { description: "Never answers." },
    () => new Promise(() => undefined),
  );
  const count = Number(process.argv[2] ?? 0);
  for (let number = 1; number <= count; number++)
    server.registerTool(`extra${number}`, { description: "One of many." }, () =>
      text(`extra ${number}`),
    );
  return server;
}

export interface HttpMcpServer extends AsyncDisposable {
  readonly url: string;
  readonly headers: IncomingHttpHeaders[];
}

export async function startHttpMcpServer(): Promise<HttpMcpServer> {
  const handler = createMcpHandler(testServer);
  const headers: IncomingHttpHeaders[] = [];
  const server = createServer((request, response) => {
    void (async () => {
      headers.push(request.headers);
      const body = Buffer.concat(await Array.fromAsync(request as AsyncIterable<Buffer>));
      const answer = await handler.fetch(
        new Request(`http://${request.headers.host ?? ""}${request.url ?? ""}`, {
          method: request.method ?? "GET",
          headers: request.headers as Record<string, string>,
          ...(body.length > 0 && { body }),
        }),
      );
      response.writeHead(answer.status, Object.fromEntries(answer.headers));
      for await (const bytes of answer.body ?? []) response.write(bytes);
      response.end();
    })();
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/mcp`,
    headers,
    [Symbol.asyncDispose]: async () => {
      server.closeAllConnections();
      server.close();
      await once(server, "close");
    },
  };
}

if (import.meta.main) serveStdio(testServer);
