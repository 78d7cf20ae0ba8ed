/** A session of a run: how long it is kept alive, and which files the tools have written in it. */
import type { Session, SessionInfo } from "@sandkasten/sdk";
import { SandboxError } from "@sandkasten/sdk";

export interface HeldSessionOptions {
  readonly leaseSeconds: number;
  readonly idleTimeoutSeconds: number;
  readonly maxLifetimeSeconds: number;
}

export class HeldSession {
  readonly name: string;
  /** Paths of files that the file tools have written and not deleted. */
  readonly writtenFiles = new Set<string>();
  #session: Session;
  #options: HeldSessionOptions;
  #lastUsedMs = performance.now();
  #users = 0;
  /** The time to live that the daemon currently applies. */
  #ttlSeconds: number;

  constructor(name: string, session: Session, options: HeldSessionOptions) {
    this.name = name;
    this.#session = session;
    this.#options = options;
    this.#ttlSeconds = session.ttlSeconds;
  }

  get session(): Session {
    return this.#session;
  }

  get info(): SessionInfo {
    return this.#session.lastInfo;
  }

  /** The same session, opened again. The longest idle timeout of all users applies. */
  adopt(session: Session, options: Omit<HeldSessionOptions, "leaseSeconds">): void {
    const { leaseSeconds, idleTimeoutSeconds } = this.#options;
    this.#session = session;
    this.#lastUsedMs = performance.now();
    this.#ttlSeconds = session.ttlSeconds;
    this.#options = {
      leaseSeconds,
      idleTimeoutSeconds: Math.max(idleTimeoutSeconds, options.idleTimeoutSeconds),
      maxLifetimeSeconds: options.maxLifetimeSeconds,
    };
  }

  /** Runs work in the session, which counts as use from its beginning to its end. */
  async use<Result>(work: (session: Session) => Promise<Result>): Promise<Result> {
    if (this.#lifeSeconds <= 0) {
      // Commands that started in time may finish.
      if (this.#users === 0) await this.#session.destroy();
      throw new SandboxError("SESSION_EXPIRED", "the sandbox has reached its maximum lifetime");
    }
    this.#users += 1;
    try {
      const wanted = Math.min(this.#options.leaseSeconds, this.#options.idleTimeoutSeconds);
      // Its lease was shortened because it was idle; use restores the full lease.
      if (this.#ttlSeconds < wanted) await this.#renewFor(wanted);
      return await work(this.#session);
    } finally {
      this.#users -= 1;
      this.#lastUsedMs = performance.now();
    }
  }

  /** Whether its lifetime is over and nothing runs in it. */
  get isOver(): boolean {
    return this.#users === 0 && this.#lifeSeconds <= 0;
  }

  /** Keeps the session alive, but never longer than its idle timeout and its lifetime allow. */
  async renew(): Promise<void> {
    const { leaseSeconds, idleTimeoutSeconds } = this.#options;
    if (this.isOver) return this.#session.destroy();
    if (this.#users > 0) return this.#renewFor(Math.min(leaseSeconds, idleTimeoutSeconds));
    const idleSeconds = (performance.now() - this.#lastUsedMs) / 1000;
    const leftSeconds = Math.floor(Math.min(idleTimeoutSeconds - idleSeconds, this.#lifeSeconds));
    if (leftSeconds >= 1) await this.#renewFor(Math.min(leaseSeconds, leftSeconds));
  }

  /** The remaining lifetime. */
  get #lifeSeconds(): number {
    const { maxLifetimeSeconds } = this.#options;
    return maxLifetimeSeconds - (Date.now() - Date.parse(this.#session.createdAt)) / 1000;
  }

  async #renewFor(ttlSeconds: number): Promise<void> {
    await this.#session.renew({ ttlSeconds });
    this.#ttlSeconds = ttlSeconds;
  }
}
