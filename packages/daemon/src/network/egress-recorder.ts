/** Converts the gateway's reports about connections to records and metrics. */
import type { ConnectionObserver, EgressConnection, EgressEnd } from "./egress.ts";
import type { EgressCounts, EgressVerdict, NewEgressRecord } from "../ports/egress-log.ts";

/** Shared by the sessions of a daemon. */
export class EgressTotals {
  readonly #connections: Record<EgressVerdict, number> = { allowed: 0, refused: 0, failed: 0 };
  #open = 0;
  #sent = 0;
  #received = 0;

  opened(): void {
    this.#open += 1;
  }

  moved(sentBytes: number, receivedBytes: number): void {
    this.#sent += sentBytes;
    this.#received += receivedBytes;
  }

  ended(verdict: EgressVerdict, wasOpen: boolean): void {
    this.#connections[verdict] += 1;
    if (wasOpen) this.#open -= 1;
  }

  counts(): EgressCounts {
    return {
      open: this.#open,
      connections: { ...this.#connections },
      sentBytes: this.#sent,
      receivedBytes: this.#received,
    };
  }
}

/** A connection that is open now. */
export interface OpenConnection {
  readonly startedAtMs: number;
  readonly connection: EgressConnection;
  readonly sentBytes: number;
  readonly receivedBytes: number;
}

export class EgressRecorder implements ConnectionObserver {
  readonly #add: (record: NewEgressRecord) => void;
  readonly #totals: EgressTotals;
  readonly #nowMs: () => number;
  readonly #open = new Map<
    EgressConnection,
    { readonly startedAtMs: number; sentBytes: number; receivedBytes: number }
  >();

  constructor(add: (record: NewEgressRecord) => void, totals: EgressTotals, nowMs: () => number) {
    this.#add = add;
    this.#totals = totals;
    this.#nowMs = nowMs;
  }

  /** Open connections, oldest first. */
  openConnections(): readonly OpenConnection[] {
    return [...this.#open].map(([connection, counted]) => ({ connection, ...counted }));
  }

  opened(connection: EgressConnection): void {
    this.#open.set(connection, { startedAtMs: this.#nowMs(), sentBytes: 0, receivedBytes: 0 });
    this.#totals.opened();
  }

  moved(connection: EgressConnection, sentBytes: number, receivedBytes: number): void {
    this.#totals.moved(sentBytes, receivedBytes);
    const counted = this.#open.get(connection);
    if (counted === undefined) return;
    counted.sentBytes += sentBytes;
    counted.receivedBytes += receivedBytes;
  }

  closed(connection: EgressConnection, end: EgressEnd): void {
    const counted = this.#open.get(connection);
    this.#open.delete(connection);
    const verdict = end.kind === "closed" ? "allowed" : end.kind;
    this.#totals.ended(verdict, counted !== undefined);
    const { target, via } = connection;
    const now = this.#nowMs();
    const address = connection.address ?? ("address" in target ? target.address : undefined);
    this.#add({
      startedAtMs: counted?.startedAtMs ?? now,
      endedAtMs: now,
      via,
      ...("name" in target && { name: target.name }),
      ...(address !== undefined && { address }),
      port: target.port,
      verdict,
      ...(end.kind !== "closed" && { reason: end.reason }),
      sentBytes: counted?.sentBytes ?? 0,
      receivedBytes: counted?.receivedBytes ?? 0,
    });
  }

  nameRefused(name: string): void {
    this.#totals.ended("refused", false);
    const now = this.#nowMs();
    this.#add({
      startedAtMs: now,
      endedAtMs: now,
      via: "dns",
      name,
      verdict: "refused",
      reason: "the session's network policy does not allow this name",
      sentBytes: 0,
      receivedBytes: 0,
    });
  }
}
