/** Networks of sessions, and their connections. */
import type { EgressPageBody, EgressRecordBody } from "@sandkasten/protocol";
import { camelKeys } from "./camel-keys.ts";
import { type WithSnakeNames, withSnakeNames } from "./snake-names.ts";

/** Which hosts a session may connect to. */
export interface NetworkRules {
  /**
   * Hosts (`api.example.com`), hosts below a name (`*.example.com`), networks (`10.1.2.0/24`), `*` for
   * every public host, each optionally with ports (`:443`, `:8000-8100`, `:*`), and presets of the
   * administrator by name.
   */
  readonly allow: readonly string[];
}

/**
 * `none`, `full` (every public address), or what is allowed; `true` is the administrator's default. A
 * request for more than the administrator allows is refused with `PERMISSION_DENIED`.
 */
export type NetworkRequest = boolean | "none" | "full" | NetworkRules;

/** The visible part of a secret. */
export interface SecretHeader {
  /** The host whose requests get the header. */
  readonly host: string;
  /** The name of the header. */
  readonly header: string;
  /** The name of a secret that the administrator configured, instead of `value`. */
  readonly name?: string | undefined;
}

/** A header that the gateway adds to HTTPS requests to a host. */
export interface Secret extends SecretHeader {
  /** The header's value. */
  readonly value?: string | undefined;
}

interface EgressFields {
  /** Increases within the session. */
  readonly cursor: number;
  readonly startedAt: string;
  readonly endedAt: string;
  /** The requested host name. */
  readonly name?: string | undefined;
  /** The address of the connection. */
  readonly address?: string | undefined;
  readonly port?: number | undefined;
  /** How the program asked: `transparent`, `connect`, `http`, `socks5`, or `dns` for a name only. */
  readonly via: string;
  readonly verdict: "allowed" | "refused" | "failed";
  /** Why it was refused or failed. */
  readonly reason?: string | undefined;
  readonly sentBytes: number;
  readonly receivedBytes: number;
  /** How many identical attempts this record represents. */
  readonly count: number;
}

/** An ended or refused connection to another host. */
export type EgressRecord = WithSnakeNames<EgressFields>;

interface OpenEgressFields {
  readonly startedAt: string;
  readonly name?: string | undefined;
  readonly address?: string | undefined;
  readonly port: number;
  readonly via: string;
  readonly sentBytes: number;
  readonly receivedBytes: number;
}

/** An open connection to another host. */
export type OpenEgress = WithSnakeNames<OpenEgressFields>;

/** A page of a session's connections, oldest first. */
export interface EgressPage {
  readonly records: readonly EgressRecord[];
  /** The cursor of the next page. */
  readonly cursor: number;
  /** How many records before the first one are no longer kept. */
  readonly missing: number;
  /** Connections that are open now. */
  readonly open: readonly OpenEgress[];
}

/** Which page of a session's connections to get. */
export interface EgressOptions {
  /** Only records after this one. All records by default. */
  readonly cursor?: number | undefined;
  /** The maximum number of results. */
  readonly limit?: number | undefined;
  readonly signal?: AbortSignal | undefined;
}

export function toNetwork(
  network: NetworkRequest | undefined,
): boolean | "none" | "full" | { allow: string[] } | undefined {
  return typeof network === "object" ? { allow: [...network.allow] } : network;
}

export function toEgressRecord(body: EgressRecordBody): EgressRecord {
  return withSnakeNames(camelKeys(body));
}

export function toEgressPage({ records, open, ...rest }: EgressPageBody): EgressPage {
  return {
    ...rest,
    records: records.map(toEgressRecord),
    open: open.map((connection) => withSnakeNames(camelKeys(connection))),
  };
}
