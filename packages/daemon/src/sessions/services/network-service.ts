/** What callers can learn about and change in the networks of sessions. */
import type { NetworkRequest } from "../../network/plan-network.ts";
import type { EgressPage } from "../../ports/egress-log.ts";
import type { Caller } from "./caller.ts";
import type { SessionView } from "./session-service.ts";

/** A currently open outbound connection of a sandbox. */
export interface OpenEgress {
  readonly startedAtMs: number;
  readonly name?: string;
  readonly address?: string;
  readonly port: number;
  readonly via: string;
  readonly sentBytes: number;
  readonly receivedBytes: number;
}

/** Where sessions may connect to, and where they have connected. */
export interface NetworkService {
  /**
   * Changes the network of a running session; connections that it no longer allows are cut.
   * PERMISSION_DENIED beyond what the administrator allows, CONFLICT for a session that was created
   * without a network, UNSUPPORTED on a network that the daemon does not control.
   */
  change(caller: Caller, sessionId: string, network: NetworkRequest): Promise<SessionView>;
  /** Also for ended sessions. */
  egress(
    caller: Caller,
    sessionId: string,
    page: { readonly after: number; readonly limit: number },
  ): Promise<EgressPage & { readonly open: readonly OpenEgress[] }>;
  /** Yields pages from a cursor on, as they arrive, until the signal aborts. */
  follow(
    caller: Caller,
    sessionId: string,
    after: number,
    signal: AbortSignal,
  ): AsyncIterable<EgressPage>;
}
