/** Ports of sandboxes: their listeners, and a limited number of connections to them per session. */
import { SandboxError } from "@sandkasten/protocol";
import type { ListeningPort } from "../ports/channel.ts";
import type { Caller } from "./services/caller.ts";
import type { OpenPort, PortService, PortVisitor } from "./services/port-service.ts";
import type { Sessions } from "./sessions.ts";

export interface PortsParts {
  readonly sessions: Sessions;
  readonly settings: { readonly maxPortConnections: number };
}

export class Ports implements PortService {
  readonly #parts: PortsParts;
  readonly #open = new Map<string, number>();

  constructor(parts: PortsParts) {
    this.#parts = parts;
  }

  async checkReachable(caller: Caller, sessionId: string): Promise<void> {
    (await this.#parts.sessions.enter(caller, sessionId))[Symbol.dispose]();
  }

  async list(caller: Caller, sessionId: string): Promise<readonly ListeningPort[]> {
    using access = await this.#parts.sessions.enter(caller, sessionId);
    return await access.channel.listPorts();
  }

  async connect(
    visitor: PortVisitor,
    sessionId: string,
    port: number,
    signal?: AbortSignal,
  ): Promise<OpenPort> {
    const { sessions } = this.#parts;
    const stack = new DisposableStack();
    try {
      const access = stack.use(
        visitor === "link"
          ? await sessions.enterByLink(sessionId)
          : await sessions.enter(visitor, sessionId),
      );
      stack.use(this.#count(sessionId));
      const connection = await access.channel.dial(port, signal);
      return { connection, [Symbol.dispose]: () => stack.dispose() };
    } catch (error) {
      stack.dispose();
      throw error;
    }
  }

  /**
   * SECURITY: each connection uses memory here and in the runner, so neither a visitor with a link
   * nor a page that reconnects forever gets more than this. Guarded by ports.test.ts.
   */
  #count(sessionId: string): Disposable {
    const { maxPortConnections } = this.#parts.settings;
    const open = this.#open.get(sessionId) ?? 0;
    if (open >= maxPortConnections)
      throw new SandboxError(
        "QUOTA_EXCEEDED",
        `session ${sessionId} has ${maxPortConnections} open connections to its ports; close some first`,
      );
    this.#open.set(sessionId, open + 1);
    return {
      [Symbol.dispose]: () => {
        const left = (this.#open.get(sessionId) ?? 1) - 1;
        if (left === 0) this.#open.delete(sessionId);
        else this.#open.set(sessionId, left);
      },
    };
  }
}
