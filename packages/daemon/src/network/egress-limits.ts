/** Keeps the connections of one session within its limits, and reports the limit that is reached. */
import type { ConnectionLimiter } from "./egress.ts";

export interface EgressLimits {
  readonly maxConnections: number;
  readonly maxConnectionsPerSecond: number;
  /** Both ways together; 0 for no limit. */
  readonly maxTotalBytes: number;
  /** Both ways together; 0 for no limit. */
  readonly maxBytesPerSecond: number;
}

/** A shorter wait costs more than it gains. */
const LEAST_WAIT_MS = 5;

/**
 * SECURITY: each connection uses memory and a descriptor of the daemon, and each byte processor time,
 * so one sandbox must not use all of them. Guarded by egress-limits.test.ts.
 */
export class SessionLimiter implements ConnectionLimiter {
  readonly #limits: EgressLimits;
  readonly #nowMs: () => number;
  readonly #starts: Bucket;
  readonly #bandwidth: Bucket | undefined;
  #open = 0;
  #bytes = 0;

  constructor(limits: EgressLimits, nowMs: () => number) {
    const { maxConnections, maxConnectionsPerSecond, maxBytesPerSecond } = limits;
    this.#limits = limits;
    this.#nowMs = nowMs;
    this.#starts = new Bucket(maxConnectionsPerSecond, maxConnections, nowMs());
    this.#bandwidth =
      maxBytesPerSecond === 0
        ? undefined
        : new Bucket(maxBytesPerSecond, maxBytesPerSecond / 4, nowMs());
  }

  get openConnections(): number {
    return this.#open;
  }

  admit(): { readonly release: () => void } | { readonly reason: string } {
    const { maxConnections, maxConnectionsPerSecond } = this.#limits;
    if (this.#isUsedUp) return { reason: this.#usedUp() };
    if (this.#open >= maxConnections)
      return {
        reason: `the session has ${maxConnections} connections open (network.max_connections); close some first`,
      };
    if (this.#starts.debtMs(1, this.#nowMs()) > 0)
      return {
        reason: `the session opens more than ${maxConnectionsPerSecond} connections per second (network.max_connections_per_second); try again more slowly`,
      };
    this.#starts.take(1);
    this.#open += 1;
    let released = false;
    return {
      release: () => {
        if (!released) this.#open -= 1;
        released = true;
      },
    };
  }

  /** Counts the bytes that an earlier daemon has transferred. */
  countEarlier(bytes: number): void {
    this.#bytes += bytes;
  }

  take(_connection: unknown, bytes: number): Promise<void> | undefined {
    if (this.#isUsedUp) return Promise.reject(new Error(this.#usedUp()));
    this.#bytes += bytes;
    if (this.#bandwidth === undefined) return undefined;
    const waitMs = this.#bandwidth.debtMs(bytes, this.#nowMs());
    this.#bandwidth.take(bytes);
    if (waitMs < LEAST_WAIT_MS) return undefined;
    return new Promise((resolve) => {
      setTimeout(resolve, waitMs);
    });
  }

  get #isUsedUp(): boolean {
    const { maxTotalBytes } = this.#limits;
    return maxTotalBytes > 0 && this.#bytes >= maxTotalBytes;
  }

  #usedUp(): string {
    return `the session has transferred the ${this.#limits.maxTotalBytes} bytes that it may (network.max_total_bytes)`;
  }
}

/** Fills at a steady rate up to its size; taking more requires waiting. */
class Bucket {
  readonly #perMs: number;
  readonly #size: number;
  #level: number;
  #filledAtMs: number;

  constructor(perSecond: number, size: number, nowMs: number) {
    this.#perMs = perSecond / 1000;
    this.#size = size;
    this.#level = size;
    this.#filledAtMs = nowMs;
  }

  /** How long it takes until this much is available. */
  debtMs(amount: number, nowMs: number): number {
    this.#level = Math.min(this.#size, this.#level + (nowMs - this.#filledAtMs) * this.#perMs);
    this.#filledAtMs = nowMs;
    return Math.max(0, (amount - this.#level) / this.#perMs);
  }

  take(amount: number): void {
    this.#level -= amount;
  }
}
