/** Gives the dashboard access to runs of the agent service, a separate process, through the daemon. */
import { Readable } from "node:stream";
import type { FastifyReply, FastifyRequest } from "fastify";
import { SandboxError } from "@sandkasten/protocol";
import type { App } from "../http/app.ts";
import type { Shutdown } from "../http/connection/shutdown.ts";

/** Where the agent service is. */
export interface AgentServiceAddress {
  readonly url: string;
  /** Absent for a service on loopback that requires none. */
  readonly apiKey?: string | undefined;
}

/** The address, which may become known after the daemon has started. */
export interface AgentServiceLink {
  address?: AgentServiceAddress | undefined;
}

const PREFIX = "/v1/agent-service";
const ID = "[A-Za-z0-9_-]{1,200}";
const SEEN = new RegExp(`^/v1/(?:runs|workflow-runs)(?:/${ID}(?:/events)?)?$`);
const DECIDED = new RegExp(
  `^/v1/(?:runs/${ID}/cancel|workflow-runs/${ID}/(?:approve|reject|cancel|resume))$`,
);

/**
 * SECURITY: the agent service has no tenants, and its runs use the administrator's key and money.
 * So only administrators have access, and only to view runs and to decide about existing ones:
 * nothing can be started from a browser. The path is one of a fixed few, and neither the daemon's
 * key nor anything else of the request's head is passed on (threat: unauthorized access). Guarded
 * by agent-forwarding.test.ts.
 */
export function agentForwardingRoutes(app: App, link: AgentServiceLink, shutdown: Shutdown): void {
  const forward = forwarderTo(link, shutdown);
  app.get(PREFIX, { schema: { hide: true } }, ({ caller }) => ({
    available: caller.isAdmin && link.address !== undefined,
  }));
  app.get(`${PREFIX}/*`, { schema: { hide: true }, config: { stream: true } }, (request, reply) =>
    forward(request, reply, SEEN),
  );
  app.post(`${PREFIX}/*`, { schema: { hide: true } }, (request, reply) =>
    forward(request, reply, DECIDED),
  );
}

type Forward = (
  request: FastifyRequest,
  reply: FastifyReply,
  allowed: RegExp,
) => Promise<FastifyReply>;

function forwarderTo(link: AgentServiceLink, shutdown: Shutdown): Forward {
  return async (request, reply, allowed) => {
    const { address } = link;
    if (!request.caller.isAdmin)
      throw new SandboxError(
        "PERMISSION_DENIED",
        "Only an administrator's key can see agent runs.",
      );
    const [path = "", query] = request.originalUrl.slice(PREFIX.length).split("?", 2);
    if (address === undefined || !allowed.test(path))
      throw new SandboxError("ROUTE_NOT_FOUND", "The dashboard forwards nothing to this path.");
    const gone = new AbortController();
    const forgetShutdown = shutdown.listen(() => gone.abort());
    reply.raw.once("close", () => {
      forgetShutdown();
      gone.abort();
    });
    const response = await ask(
      request,
      address,
      query === undefined ? path : `${path}?${query}`,
      gone,
    );
    reply.code(response.status);
    reply.type(response.headers.get("content-type") ?? "application/json");
    return reply.send(response.body && Readable.fromWeb(response.body));
  };
}

async function ask(
  { method, headers, body }: FastifyRequest,
  { url, apiKey }: AgentServiceAddress,
  path: string,
  gone: AbortController,
): Promise<Response> {
  try {
    return await fetch(url.replace(/\/+$/, "") + path, {
      method,
      headers: {
        accept: headers.accept ?? "application/json",
        ...(apiKey !== undefined && { authorization: `Bearer ${apiKey}` }),
        ...(method === "POST" && { "content-type": "application/json" }),
      },
      ...(method === "POST" && { body: JSON.stringify(body ?? {}) }),
      redirect: "error",
      signal: gone.signal,
    });
  } catch (cause) {
    throw new SandboxError("ENGINE_UNREACHABLE", "The agent service does not respond.", { cause });
  }
}
