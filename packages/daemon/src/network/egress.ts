/**
 * The contract of the gateway: what it asks before a byte leaves a sandbox, and what it reports. There
 * is one set of these for each session.
 */
import type { Duplex } from "node:stream";

/** How a program in the sandbox requested the connection. */
export type EgressVia = "transparent" | "connect" | "http" | "socks5";

/** Where a program in the sandbox wants to connect: a name or an address, never both. */
export type EgressTarget =
  | { readonly name: string; readonly port: number }
  | { readonly address: string; readonly port: number };

export type EgressDecision =
  | { readonly allowed: true }
  /** `message` is shown to the program, so it must not contain secrets. */
  | { readonly allowed: false; readonly message: string };

/** The rules of one session. Pure and synchronous: called for every name and connection. */
export interface EgressPolicy {
  /**
   * The ports on which a name can be reached; none for a name that must not be resolved. Names are
   * lower case and have no trailing dot.
   */
  portsOf(name: string): readonly { readonly first: number; readonly last: number }[];
  /**
   * Called twice for a name: alone before it is resolved, and with the resolved address. An address
   * alone is a literal of the program.
   *
   * SECURITY: an address that is not public is allowed only if a rule names the address
   * itself, whatever name resolved to it.
   */
  decide(destination: {
    readonly name?: string;
    readonly address?: string;
    readonly port: number;
  }): EgressDecision;
}

/** One connection, from the request to its end. */
export interface EgressConnection {
  readonly target: EgressTarget;
  readonly via: EgressVia;
  /** The address of the connection; absent until then. */
  address?: string;
}

export type EgressEnd =
  | { readonly kind: "closed" }
  /** The policy, the address check, a limit or the interceptor refused it: no connection was made, or it was closed. */
  | { readonly kind: "refused"; readonly reason: string }
  /** The network failed: a name that does not resolve, a server that refuses, resets or does not respond. */
  | { readonly kind: "failed"; readonly reason: string };

/** Receives all reports. Must not throw and must return at once. */
export interface ConnectionObserver {
  /** A connection to `connection.address` is open. */
  opened(connection: EgressConnection): void;
  /** Bytes transferred since the last call, as seen from the sandbox. */
  moved(connection: EgressConnection, sentBytes: number, receivedBytes: number): void;
  /** The final report about a connection, also for one that was refused and never opened. */
  closed(connection: EgressConnection, end: EgressEnd): void;
  /** A program looked up a name that the policy does not allow. */
  nameRefused(name: string): void;
}

/** Keeps one session within its limits. */
export interface ConnectionLimiter {
  /** Reserves a place for one connection, or returns why there is none. The gateway calls `release` once. */
  admit(
    connection: EgressConnection,
  ): { readonly release: () => void } | { readonly reason: string };
  /**
   * Called before bytes move in either direction. Undefined allows them at once; a promise makes
   * that direction of that connection wait; a rejection closes the connection, with its message as the reason.
   */
  take(connection: EgressConnection, bytes: number): Promise<void> | undefined;
}

export type Inspection =
  /** Undecided until more bytes have arrived. */
  | { readonly kind: "more" }
  | { readonly kind: "pass" }
  | { readonly kind: "refuse"; readonly reason: string }
  /**
   * The interceptor talks to the program itself. `client` begins with the bytes that were
   * inspected; `connect` connects to the resolved and checked address. The interceptor transfers the
   * bytes and calls the limiter itself. Both sides are closed when `serve` settles.
   */
  | {
      readonly kind: "terminate";
      readonly serve: (client: Duplex, connect: () => Promise<Duplex>) => Promise<void>;
    };

/** Inspects the first bytes of a program, before the server gets any of them. */
export interface Interceptor {
  /** Whether it inspects this connection at all. */
  wants(connection: EgressConnection): boolean;
  /** Whether it can return `terminate` for this connection. */
  mayTerminate(connection: EgressConnection): boolean;
  /**
   * `first` holds all bytes so far, and `ended` says whether more can follow. The gateway keeps at
   * most 64 KiB; `more` beyond that, or after the end, refuses the connection.
   */
  inspect(connection: EgressConnection, first: Uint8Array, ended: boolean): Inspection;
}

/** Everything that the gateway needs for one session. */
export interface SessionEgress {
  /** Read for each connection, so a new policy applies at once. */
  readonly policy: () => EgressPolicy;
  readonly observer: ConnectionObserver;
  readonly limiter: ConnectionLimiter;
  readonly interceptor?: Interceptor;
}
