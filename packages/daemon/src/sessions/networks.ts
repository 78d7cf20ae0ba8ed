/** Where sessions may connect to, and where they have connected. */
import type { NetworkRequest } from "../network/plan-network.ts";
import type { SessionNetworks } from "../network/session-networks.ts";
import type { EgressPage } from "../ports/egress-log.ts";
import type { Caller } from "./services/caller.ts";
import type { NetworkService, OpenEgress } from "./services/network-service.ts";
import type { SessionView } from "./services/session-service.ts";
import type { Sessions } from "./sessions.ts";

export interface NetworksParts {
  readonly sessions: Sessions;
  readonly networks: SessionNetworks;
}

/** Records per page while following. */
const FOLLOWED_AT_ONCE = 100;

export class Networks implements NetworkService {
  readonly #parts: NetworksParts;

  constructor(parts: NetworksParts) {
    this.#parts = parts;
  }

  async change(caller: Caller, sessionId: string, network: NetworkRequest): Promise<SessionView> {
    return await this.#parts.sessions.changeNetwork(caller, sessionId, network);
  }

  async egress(
    caller: Caller,
    sessionId: string,
    { after, limit }: { readonly after: number; readonly limit: number },
  ): Promise<EgressPage & { readonly open: readonly OpenEgress[] }> {
    const { sessions, networks } = this.#parts;
    // SECURITY: another owner's session gets the same response as a missing one. Guarded by
    // networks.test.ts.
    await sessions.get(caller, sessionId);
    const page = await networks.log.read(sessionId, after, limit);
    return { ...page, open: networks.openConnections(sessionId).map(openEgress) };
  }

  async *follow(
    caller: Caller,
    sessionId: string,
    after: number,
    signal: AbortSignal,
  ): AsyncGenerator<EgressPage> {
    await this.#parts.sessions.get(caller, sessionId);
    yield* this.#parts.networks.log.follow(sessionId, after, FOLLOWED_AT_ONCE, signal);
  }
}

function openEgress({
  connection: { target, via, address },
  ...counted
}: ReturnType<SessionNetworks["openConnections"]>[number]): OpenEgress {
  const reached = address ?? ("address" in target ? target.address : undefined);
  return {
    ...counted,
    ...("name" in target && { name: target.name }),
    ...(reached !== undefined && { address: reached }),
    port: target.port,
    via,
  };
}
