/**
 * The contract of the gateway: what it asks before a byte leaves a sandbox, and whom it tells. One
 * set of these exists per session.
 */
import type { Duplex } from "node:stream";

/** How a program in the sandbox asked for the connection. */
export type EgressVia = "transparent" | "connect" | "http" | "socks5";

/** Where a program in the sandbox wants to connect: a name or an address, never both. */
export type EgressTarget =
  | { readonly name: string; readonly port: number }
  | { readonly address: string; readonly port: number };

export type EgressDecision =
  | { readonly allowed: true }
  /** `message` is shown to the program that asked, so it must not tell secrets. */
  | { readonly allowed: false; readonly message: string };

/** The rules of one session. Pure and synchronous: the gateway asks it for every name and connection. */
export interface EgressPolicy {
  /**
   * The ports that a name may be reached on; none for a name that must not be resolved. Names are
   * lower case and have no trailing dot.
   */
  portsOf(name: string): readonly { readonly first: number; readonly last: number }[];
  /**
   * Asked twice for a name: alone before it is resolved, and with the address that it resolved to. An
   * address alone is one that the program gave as such.
   *
   * SECURITY: an address that is not of the internet is allowed only where a rule names the address
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
  /** The address that was connected to; absent until then. */
  address?: string;
}

export type EgressEnd =
  | { readonly kind: "closed" }
  /** The policy, the address check, a limit or the interceptor refused it; nothing was connected, or it was cut. */
  | { readonly kind: "refused"; readonly reason: string }
  /** The network failed: a name that does not resolve, a server that refuses, resets or does not answer. */
  | { readonly kind: "failed"; readonly reason: string };

/** Hears of everything that happens. Must not throw and must return at once. */
export interface ConnectionObserver {
  /** A connection to `connection.address` is open. */
  opened(connection: EgressConnection): void;
  /** Bytes moved since the last call, as seen from the sandbox. */
  moved(connection: EgressConnection, sentBytes: number, receivedBytes: number): void;
  /** The last word about a connection, also about one that was refused and never opened. */
  closed(connection: EgressConnection, end: EgressEnd): void;
  /** A name was asked for that the policy does not allow. */
  nameRefused(name: string): void;
}

/** Keeps one session within its limits. */
export interface ConnectionLimiter {
  /** Reserves a place for one connection, or says why there is none left. The gateway calls `release` once. */
  admit(
    connection: EgressConnection,
  ): { readonly release: () => void } | { readonly reason: string };
  /**
   * Asked before bytes move in either direction. Undefined lets them through at once; a promise makes
   * that direction of that connection wait; a rejection cuts the connection, with its message as the reason.
   */
  take(connection: EgressConnection, bytes: number): Promise<void> | undefined;
}

export type Inspection =
  /** Nothing can be said before more bytes have come. */
  | { readonly kind: "more" }
  | { readonly kind: "pass" }
  | { readonly kind: "refuse"; readonly reason: string }
  /**
   * The interceptor speaks with the program itself. `client` begins with the bytes that were
   * inspected; `connect` gives the connection to the resolved and checked address. It carries the
   * bytes itself, and asks the limiter itself. Both sides are closed when `serve` settles.
   */
  | {
      readonly kind: "terminate";
      readonly serve: (client: Duplex, connect: () => Promise<Duplex>) => Promise<void>;
    };

/** Looks at what a program says first, before the server gets any of it. */
export interface Interceptor {
  /** Whether it wants to look at this connection at all. */
  wants(connection: EgressConnection): boolean;
  /** Whether it may answer `terminate` for this connection. */
  mayTerminate(connection: EgressConnection): boolean;
  /**
   * `first` holds all bytes so far and `ended` tells whether there will be more. The gateway keeps at
   * most 64 KiB; `more` beyond that, or after the end, refuses the connection.
   */
  inspect(connection: EgressConnection, first: Uint8Array, ended: boolean): Inspection;
}

/** All that the gateway needs to know about one session. */
export interface SessionEgress {
  /** Asked anew for each connection, so that a new policy holds at once. */
  readonly policy: () => EgressPolicy;
  readonly observer: ConnectionObserver;
  readonly limiter: ConnectionLimiter;
  readonly interceptor?: Interceptor;
}
