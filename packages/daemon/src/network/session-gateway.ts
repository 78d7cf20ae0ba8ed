/** The gateway of one session: checks the policy, resolves, connects, and transfers the bytes. */
import type { Duplex } from "node:stream";
import { isIP } from "node:net";
import type { Socket } from "node:net";
import type { SandboxRefusalCode } from "@sandkasten/protocol";
import type { NetworkHandler, SandboxConnection, SandboxDestination } from "../ports/channel.ts";
import { dialAddress } from "./dial-address.ts";
import type { EgressConnection, EgressTarget, Interceptor, SessionEgress } from "./egress.ts";
import { judgeFirstBytes } from "./first-bytes.ts";
import type { Judged } from "./first-bytes.ts";
import type { ResolveName } from "./name-resolver.ts";
import { listenPorts } from "./listen-ports.ts";
import { SharedReads } from "./shared-reads.ts";
import { carry } from "./splice.ts";

export interface GatewayOptions {
  readonly resolveName: ResolveName;
}

/** Why there is no connection, in words for the program. */
class Refusal extends Error {
  readonly code: SandboxRefusalCode;

  constructor(code: SandboxRefusalCode, message: string) {
    super(message);
    this.code = code;
  }
}

interface Living {
  readonly connection: EgressConnection;
  readonly cut: (reason: string) => void;
}

/** How many addresses of a name are tried before giving up. */
const MAX_ADDRESSES = 4;

export class SessionGateway implements NetworkHandler {
  readonly #egress: SessionEgress;
  readonly #options: GatewayOptions;
  readonly #living = new Set<Living>();

  constructor(egress: SessionEgress, options: GatewayOptions) {
    this.#egress = egress;
    this.#options = options;
  }

  /**
   * SECURITY: answers from the policy alone. The gateway asks no name server about a name that is
   * not allowed, so names carry no data out (DNS tunnelling), nor about an allowed name before a
   * program connects. Guarded by "without a query to a name server" in session-gateway.test.ts.
   */
  resolve(host: string): readonly number[] | undefined {
    const name = normalName(host);
    const ports = name === undefined ? [] : listenPorts(this.#egress.policy().portsOf(name));
    if (ports.length > 0) return ports;
    this.#egress.observer.nameRefused(host);
    return undefined;
  }

  connect({ host, port, via }: SandboxDestination, client: SandboxConnection): void {
    const connection: EgressConnection = { target: targetOf(host, port), via };
    void this.#serve(connection, client).catch((error: unknown) => {
      this.#refuse(connection, client, error);
    });
  }

  /** Closes the connections that the policy no longer allows. */
  recheck(): void {
    const policy = this.#egress.policy();
    for (const { connection, cut } of this.#living) {
      const verdict = policy.decide(destinationOf(connection));
      if (!verdict.allowed) cut(verdict.message);
    }
  }

  /** Closes all connections. */
  close(): void {
    for (const { cut } of this.#living) cut("the network of the session was closed");
  }

  async #serve(connection: EgressConnection, client: SandboxConnection): Promise<void> {
    const gone = new AbortController();
    client.once("close", () => gone.abort());
    const place = this.#egress.limiter.admit(connection);
    if ("reason" in place) throw new Refusal("too_many", place.reason);
    try {
      // An interceptor that talks to the server reads it itself.
      const mayTerminate = this.#egress.interceptor?.mayTerminate(connection) === true;
      const reads = mayTerminate ? undefined : new SharedReads();
      const server = await this.#reach(connection, gone.signal, reads);
      // SECURITY: connecting takes time, and a policy that changed meanwhile closed only open connections.
      // Guarded by "forbidden during the connection attempt" in session-gateway.test.ts.
      const verdict = this.#egress.policy().decide(destinationOf(connection));
      if (client.destroyed || !verdict.allowed) {
        server.resetAndDestroy();
        throw verdict.allowed
          ? new Refusal("reset", "the program closed the connection")
          : new Refusal("denied", verdict.message);
      }
      await this.#splice(connection, client, server, reads);
    } finally {
      place.release();
    }
  }

  /** A connection to an address that the policy allows. */
  async #reach(
    connection: EgressConnection,
    signal: AbortSignal,
    reads: SharedReads | undefined,
  ): Promise<Socket> {
    let failure: unknown;
    for (const address of await this.#addresses(connection)) {
      try {
        const { port } = connection.target;
        const socket = await dialAddress(address, port, signal, reads);
        connection.address = address;
        return socket;
      } catch (error) {
        failure = error;
        if (signal.aborted) break;
      }
    }
    throw networkFailure(connection, failure);
  }

  /**
   * SECURITY: the policy is checked for the target before anything is resolved, and for each
   * address afterwards; only addresses that passed are used. Guarded by session-gateway.test.ts and
   * by the attacks of the network suite.
   */
  async #addresses({ target }: EgressConnection): Promise<readonly string[]> {
    const policy = this.#egress.policy();
    const verdict = policy.decide(target);
    if (!verdict.allowed) throw new Refusal("denied", verdict.message);
    if ("address" in target) return [target.address];
    let addresses: readonly string[];
    try {
      addresses = await this.#options.resolveName(target.name);
    } catch {
      addresses = [];
    }
    if (addresses.length === 0)
      throw new Refusal("unresolved", `the name ${target.name} does not resolve to an address`);
    const verdicts = addresses.slice(0, MAX_ADDRESSES).map((address) => ({
      address,
      verdict: this.#egress.policy().decide({ ...target, address }),
    }));
    const allowed = verdicts.filter((each) => each.verdict.allowed);
    const [refused] = verdicts.flatMap((each) => (each.verdict.allowed ? [] : [each.verdict]));
    if (allowed.length === 0 && refused !== undefined) throw new Refusal("denied", refused.message);
    return allowed.map(({ address }) => address);
  }

  async #splice(
    connection: EgressConnection,
    client: SandboxConnection,
    server: Socket,
    reads: SharedReads | undefined,
  ): Promise<void> {
    const { observer, limiter } = this.#egress;
    const closed = Promise.withResolvers<void>();
    let cutReason: string | undefined;
    const living: Living = {
      connection,
      cut: (reason) => {
        cutReason ??= reason;
        client.fail("denied", reason);
        server.resetAndDestroy();
      },
    };
    let failure: Error | undefined;
    // If one side fails, the other does as well.
    client.on("error", (error) => {
      failure ??= error;
      server.resetAndDestroy();
    });
    server.on("error", (error) => {
      failure ??= error;
      client.fail("reset", error.message);
    });
    const settle = (): void => {
      if (client.destroyed && !server.destroyed && !server.writableEnded) server.resetAndDestroy();
      if (client.closed && server.closed) closed.resolve();
    };
    client.once("close", settle);
    server.once("close", settle);
    this.#living.add(living);
    observer.opened(connection);
    const sent = (bytes: number): Promise<void> | undefined => {
      observer.moved(connection, bytes, 0);
      return limiter.take(connection, bytes);
    };
    const received = (bytes: number): Promise<void> | undefined => {
      observer.moved(connection, 0, bytes);
      return limiter.take(connection, bytes);
    };
    client.accept();
    const parts = { client, server, sent, received, connection, cut: living.cut };
    if (reads === undefined) await this.#intercept(parts);
    else {
      // Servers that send first are heard meanwhile; only the program's bytes are held back.
      reads.carry(server, client, received, living.cut);
      await this.#judge(parts);
    }
    await closed.promise;
    this.#living.delete(living);
    if (cutReason !== undefined)
      observer.closed(connection, { kind: "refused", reason: cutReason });
    else if (failure !== undefined)
      observer.closed(connection, { kind: "failed", reason: failure.message });
    else observer.closed(connection, { kind: "closed" });
  }

  /** Passes on the program's bytes, once the interceptor has inspected the beginning. */
  async #judge({ client, server, connection, sent, cut }: Parts): Promise<void> {
    const { interceptor } = this.#egress;
    if (interceptor?.wants(connection) === true) {
      const verdict = await this.#verdictOn(client, connection, interceptor);
      if (verdict === undefined) return;
      if (verdict.kind !== "pass") {
        cut(
          verdict.kind === "refuse" ? verdict.reason : "the gateway cannot answer for this server",
        );
        return;
      }
    }
    carry(client, server, sent, cut);
  }

  /** Like `#judge`, for a connection on which the interceptor may talk itself. */
  async #intercept(parts: Parts): Promise<void> {
    const { client, server, connection, cut } = parts;
    const { interceptor } = this.#egress;
    if (interceptor === undefined) return;
    let hasSpoken = false;
    const listen = (): void => {
      hasSpoken = true;
      server.off("readable", listen);
      carry(server, client, parts.received, cut);
    };
    server.on("readable", listen);
    const verdict = await this.#verdictOn(client, connection, interceptor);
    server.off("readable", listen);
    if (verdict === undefined) return;
    if (verdict.kind === "refuse") cut(verdict.reason);
    else if (verdict.kind === "terminate") {
      if (hasSpoken) cut("the server spoke before the program did");
      else await this.#terminate(parts, verdict.serve);
    } else {
      if (!hasSpoken) carry(server, client, parts.received, cut);
      carry(client, server, parts.sent, cut);
    }
  }

  /** Undefined if the program disconnects before there is one. */
  async #verdictOn(
    client: SandboxConnection,
    connection: EgressConnection,
    interceptor: Interceptor,
  ): Promise<Judged | undefined> {
    try {
      return await judgeFirstBytes(client, connection, interceptor);
    } catch (error) {
      if (client.destroyed) return undefined;
      return { kind: "refuse", reason: error instanceof Error ? error.message : String(error) };
    }
  }

  /** The interceptor transfers the bytes itself, within the limits that it knows. */
  async #terminate(
    { client, server, connection }: Parts,
    serve: (client: Duplex, connect: () => Promise<Duplex>) => Promise<void>,
  ): Promise<void> {
    try {
      await serve(client, () => Promise.resolve(server));
    } catch (error) {
      client.fail("reset", error instanceof Error ? error.message : String(error));
    }
    this.#egress.observer.moved(connection, server.bytesWritten, server.bytesRead);
    client.destroy();
    server.destroy();
  }

  #refuse(connection: EgressConnection, client: SandboxConnection, error: unknown): void {
    const refusal =
      error instanceof Refusal ? error : new Refusal("reset", "the gateway failed inside");
    client.fail(refusal.code, refusal.message);
    const kind = refusal.code === "denied" || refusal.code === "too_many" ? "refused" : "failed";
    this.#egress.observer.closed(connection, { kind, reason: refusal.message });
  }
}

interface Parts {
  readonly cut: (reason: string) => void;
  readonly connection: EgressConnection;
  readonly client: SandboxConnection;
  readonly server: Socket;
  readonly sent: (bytes: number) => Promise<void> | undefined;
  readonly received: (bytes: number) => Promise<void> | undefined;
}

function destinationOf({ target, address }: EgressConnection): EgressTarget & { address?: string } {
  return { ...target, ...(address !== undefined && { address }) };
}

function targetOf(host: string, port: number): EgressTarget {
  return isIP(host) === 0 ? { name: normalName(host) ?? host, port } : { address: host, port };
}

/** What system resolvers would accept as an address in disguise: `1`, `0177`, `0x7f`. */
const NUMBER = /^(?:[0-9]+|0x[0-9a-f]*)$/;

/** Lower case and without the final dot; undefined for anything that is not a name. */
function normalName(host: string): string | undefined {
  const name = host.toLowerCase().replace(/\.$/, "");
  const labels = name.split(".");
  const isName = labels.every((label) => /^[a-z0-9_-]{1,63}$/.test(label));
  return isName && !NUMBER.test(labels.at(-1) ?? "") ? name : undefined;
}

const FAILURES: Readonly<Record<string, readonly [SandboxRefusalCode, string]>> = {
  ECONNREFUSED: ["refused", "refused the connection"],
  ETIMEDOUT: ["timeout", "did not answer in time"],
  ECONNRESET: ["reset", "reset the connection"],
};

function networkFailure({ target }: EgressConnection, error: unknown): Refusal {
  const { code = "" } = (error ?? {}) as NodeJS.ErrnoException;
  const [refusal, what] = FAILURES[code] ?? (["unreachable", "cannot be reached"] as const);
  const shown = "name" in target ? target.name : target.address;
  return new Refusal(refusal, `${shown}:${String(target.port)} ${what}`);
}
