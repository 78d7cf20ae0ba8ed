/**
 * Clients of the protocol since 2026-07-28, which has no sessions: sandboxes belong to the path
 * that a client uses, `/mcp` or `/mcp/NAME`, until they are closed or unused for a while.
 */
import { createMcpHandler, InMemoryServerEventBus } from "@modelcontextprotocol/server";
import type { McpHttpHandler, ServerEvent, ServerEventBus } from "@modelcontextprotocol/server";
import { buildServer } from "./build-server.ts";
import { MAX_BODY_BYTES } from "./legacy-sessions.ts";
import { McpSession } from "./mcp-session.ts";
import type { McpSessionOptions } from "./mcp-session.ts";
import { untilRead } from "./until-read.ts";

const MAX_SUBSCRIPTIONS = 256;
/** SECURITY: each name costs memory, so their number is limited. Guarded by mcp-attack.serial.test.ts. */
const MAX_SCOPES = 256;

interface Scope {
  readonly session: McpSession;
  readonly handler: McpHttpHandler;
  /** Open requests, including notification streams. */
  underWay: number;
}

export class StatelessScopes {
  readonly #options: McpSessionOptions;
  readonly #scopes = new Map<string, Scope>();

  constructor(options: McpSessionOptions) {
    this.#options = options;
  }

  async answer(request: Request, name: string): Promise<Response> {
    const scope = this.#scopes.get(name) ?? this.#open(name);
    if (scope === undefined) return new Response("Too many scopes are in use.\n", { status: 503 });
    scope.underWay += 1;
    const leave = (): void => void (scope.underWay -= 1);
    try {
      return untilRead(await scope.handler.fetch(request), leave);
    } catch (error) {
      leave();
      throw error;
    }
  }

  async close(): Promise<void> {
    await Promise.all([...this.#scopes.values()].map(closeScope));
  }

  #open(name: string): Scope | undefined {
    if (this.#scopes.size >= MAX_SCOPES && !this.#forgetUnused()) return undefined;
    // The name is stable across restarts, so clients find their sandboxes again within the lease.
    const session = new McpSession(`mcp-http-${name}`, this.#options);
    const handler = createMcpHandler(({ era }) => buildServer(session, era), {
      legacy: "reject",
      bus: new WatchingBus(session),
      maxSubscriptions: MAX_SUBSCRIPTIONS,
      maxRequestBodySize: MAX_BODY_BYTES,
      onerror: (error) => this.#options.onFailure("a request could not be served", error),
    });
    const scope = { session, handler, underWay: 0 };
    this.#scopes.set(name, scope);
    return scope;
  }

  /** Makes room for a name by removing one without sandboxes and requests. */
  #forgetUnused(): boolean {
    for (const [name, scope] of this.#scopes) {
      if (scope.underWay > 0 || scope.session.sandboxes().length > 0) continue;
      this.#scopes.delete(name);
      void closeScope(scope).catch((error: unknown) =>
        this.#options.onFailure("a scope could not be closed", error),
      );
      return true;
    }
    return false;
  }
}

async function closeScope({ session, handler }: Scope): Promise<void> {
  await handler.close();
  await session.close();
}

/** Watches files while there are subscribers. */
class WatchingBus implements ServerEventBus {
  readonly #bus = new InMemoryServerEventBus();
  readonly #session: McpSession;
  #leave: (() => void) | undefined;

  constructor(session: McpSession) {
    this.#session = session;
  }

  publish(event: ServerEvent): void {
    this.#bus.publish(event);
  }

  subscribe(listener: (event: ServerEvent) => void): () => void {
    const unsubscribe = this.#bus.subscribe(listener);
    this.#leave ??= this.#session.changes.listen((uri) =>
      this.publish({ kind: "resource_updated", uri }),
    );
    return () => {
      unsubscribe();
      if (this.#bus.listenerCount > 0) return;
      this.#leave?.();
      this.#leave = undefined;
    };
  }
}
