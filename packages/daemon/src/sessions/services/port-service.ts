/** How callers reach the ports of sandboxes. */
import type { ListeningPort, PortConnection } from "../../ports/channel.ts";
import type { Caller } from "./caller.ts";

/** A caller, or a visitor with a link that the daemon signed for this port of this session. */
export type PortVisitor = Caller | "link";

/** A connection to a port. Until it is disposed, it counts, and the session does not expire. */
export interface OpenPort extends Disposable {
  readonly connection: PortConnection;
}

export interface PortService {
  /** Rejects unless the session can be reached now. */
  checkReachable(caller: Caller, sessionId: string): Promise<void>;
  /** The listening ports inside the sandbox. */
  list(caller: Caller, sessionId: string): Promise<readonly ListeningPort[]>;
  /** PORT_REFUSED if nothing listens, QUOTA_EXCEEDED if the session has too many open connections. */
  connect(
    visitor: PortVisitor,
    sessionId: string,
    port: number,
    signal?: AbortSignal,
  ): Promise<OpenPort>;
}
