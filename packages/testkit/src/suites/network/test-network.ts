/** The world outside a sandbox, as a test makes it: names, the servers behind them, and what the gateway tells. */
import type { EgressConnection, EgressEnd, SessionEgress } from "../../ports.ts";
import { makeAuthority } from "./authority.ts";
import type { TestAuthority } from "./authority.ts";

/** The host that the authority of this world has issued a certificate for. */
export const TRUSTED_HOST = "tls.test";

/** What a gateway needs to lead into this world. */
export class TestNetwork {
  /** Whose certificate the programs of the sandbox trust. */
  readonly authority: TestAuthority;
  /** As in a session's `network.allow`. */
  readonly rules: string[] = [];
  /** What the name servers of this world answer; tests change it as they like. */
  readonly hosts = new Map<string, readonly string[] | (() => readonly string[])>();
  /** The names that its name servers were asked for. */
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

  /** Lets programs reach a server of the test by a name. */
  allow(name: string, port: number, addresses: readonly string[] = ["127.0.0.1"]): void {
    this.hosts.set(name, addresses);
    this.rules.push(`${name}:${String(port)}`);
    // Loopback is not of the internet, so a rule has to name it as well.
    this.rules.push(`127.0.0.1:${String(port)}`);
  }
}
