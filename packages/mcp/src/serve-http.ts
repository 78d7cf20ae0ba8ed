/**
 * Many clients over HTTP, each with the key: those of the older protocol in sessions, others
 * request by request.
 */
import { createServer } from "node:http";
import type { Server as HttpServer } from "node:http";
import type { AddressInfo } from "node:net";
import { toNodeHandler } from "@modelcontextprotocol/node";
import { Admission } from "./admission.ts";
import type { AdmissionOptions } from "./admission.ts";
import { LegacySessions } from "./legacy-sessions.ts";
import type { McpSessionOptions } from "./mcp-session.ts";
import { StatelessScopes } from "./stateless-scopes.ts";

export interface HttpServerOptions extends McpSessionOptions, AdmissionOptions {
  readonly host: string;
  /** 0 for any free port. */
  readonly port: number;
}

export interface RunningMcpServer extends AsyncDisposable {
  /** The endpoint's URL. */
  readonly url: string;
}

const HEADERS_TIMEOUT_MS = 10_000;
const MAX_CONNECTIONS = 1024;
const PATH = /^\/mcp(?:\/(?<scope>[A-Za-z0-9_-]{1,32}))?$/;

export async function serveHttp(options: HttpServerOptions): Promise<RunningMcpServer> {
  const admission = new Admission(options);
  const legacy = new LegacySessions(options);
  const stateless = new StatelessScopes(options);
  const answer = async (request: Request): Promise<Response> => {
    const refused = admission.refuse(request);
    if (refused !== undefined) return refused;
    const { pathname } = new URL(request.url);
    const match = PATH.exec(pathname);
    if (match === null) return new Response("The endpoint is /mcp.\n", { status: 404 });
    const scope = match.groups?.["scope"] ?? "default";
    return (await legacy.answer(request)) ?? (await stateless.answer(request, scope));
  };
  const handle = toNodeHandler({ fetch: answer });
  const server = createServer(
    // SECURITY: a client that sends slowly holds a connection for a limited time only.
    { headersTimeout: HEADERS_TIMEOUT_MS },
    (request, response) => void handle(request as Parameters<typeof handle>[0], response),
  );
  server.maxConnections = MAX_CONNECTIONS;
  await listen(server, options);
  const { port } = server.address() as AddressInfo;
  const host = options.host.includes(":") ? `[${options.host}]` : options.host;
  return {
    url: `http://${host}:${port}/mcp`,
    [Symbol.asyncDispose]: async () => {
      await Promise.all([legacy.close(), stateless.close()]);
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

async function listen(
  server: HttpServer,
  { host, port }: Pick<HttpServerOptions, "host" | "port">,
): Promise<void> {
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject);
    server.listen({ host, port }, () => resolve());
  });
}
