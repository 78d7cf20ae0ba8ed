/** The world outside a sandbox in a test: names, the servers behind them, and the gateway's reports. */
import type { EgressConnection, EgressEnd, SessionEgress } from "../../ports.ts";
import { makeAuthority } from "./authority.ts";
import type { TestAuthority } from "./authority.ts";

/** The host that the authority of this world has issued a certificate for. */
export const TRUSTED_HOST = "tls.test";

/** What a gateway needs to connect to this world. */
export class TestNetwork {
  /** Whose certificate the programs of the sandbox trust. */
  readonly authority: TestAuthority;
  /** As in a session's `network.allow`. */
  readonly rules: string[] = [];
  /** The name servers' answers; tests may change them. */
  readonly hosts = new Map<string, readonly string[] | (() => readonly string[])>();
  /** The names that were queried. */
  readonly asked: string[] = [];
  readonly refusedNames: string[] = [];
  readonly ended: { readonly connection: EgressConnection; readonly end: EgressEnd }[] = [];
  open = 0;
  mostOpen = 0;

  constructor(authority: TestAuthority) {
    this.authority = authority;
  }

  static async make(): Promise<TestNetwork> {
    return new TestNetwork(await makeAuthority(TRUSTED_HOST));
  }

  readonly resolveName = async (name: string): Promise<readonly string[]> => {
    this.asked.push(name);
    const host = this.hosts.get(name) ?? [];
    return typeof host === "function" ? host() : host;
  };

  readonly observer: SessionEgress["observer"] = {
    opened: () => {
      this.open += 1;
      this.mostOpen = Math.max(this.mostOpen, this.open);
    },
    moved: () => undefined,
    closed: (connection, end) => {
      if (connection.address !== undefined) this.open -= 1;
      this.ended.push({ connection, end });
    },
    nameRefused: (name) => void this.refusedNames.push(name),
  };

  readonly limiter: SessionEgress["limiter"] = {
    admit: () => ({ release: () => undefined }),
    take: () => undefined,
  };

  /** Makes a test server reachable for programs under a name. */
  allow(name: string, port: number, addresses: readonly string[] = ["127.0.0.1"]): void {
    this.hosts.set(name, addresses);
    this.rules.push(`${name}:${String(port)}`);
    // Loopback is not public, so a rule must name it as well.
    this.rules.push(`127.0.0.1:${String(port)}`);
  }
}
