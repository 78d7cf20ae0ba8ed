/** This daemon among those that share the store: its fencing token, heartbeat, and the store's time. */
import type { Clock } from "../ports/clock.ts";
import type { Log } from "../ports/log.ts";
import { heldForDead } from "../ports/lost-ownership.ts";
import type { ClockReading, SessionStore } from "../ports/session-store.ts";

/** The fraction of the dead-after time in which a daemon can be certain that it was not declared dead. */
const SURE_SHARE = 0.75;

/**
 * What a sandbox is shown by the daemon that creates it, so that it refuses this daemon once another
 * replaced it. Absent if no other can open the store: its tokens may begin again, from a backup.
 */
export function sandboxFence(store: SessionStore, fence: number): number | undefined {
  return store.heartbeat.deadAfterMs === undefined ? undefined : fence;
}

export interface MembershipParts {
  readonly store: SessionStore;
  readonly clock: Clock;
  readonly log: Log;
  /** Where other daemons reach this one. */
  readonly address?: string | undefined;
}

export class Membership {
  readonly #parts: MembershipParts;
  #fence = 0;
  /** The store's time, and the monotonic time at the same moment. */
  #storeMs = 0;
  #readAtMs = 0;
  #sureUntilMs = 0;
  #sending: Promise<void> | undefined;
  #handling: Promise<void> | undefined;
  #timer: NodeJS.Timeout | undefined;
  #onBeat: () => Promise<void> = () => Promise.resolve();
  #onLost: () => Promise<void> = () => Promise.resolve();

  constructor(parts: MembershipParts) {
    this.#parts = parts;
  }

  /** The token of everything this daemon serves. */
  get fence(): number {
    return this.#fence;
  }

  /** The time base of leases. */
  storeMs(): number {
    return this.#storeMs + (this.#parts.clock.monotonicMs() - this.#readAtMs);
  }

  async join(): Promise<void> {
    const { store, address } = this.#parts;
    const reading = this.#reading();
    const joined = await store.join(address, reading);
    this.#fence = joined.fence;
    this.#settle(joined.storeMs, reading);
  }

  /**
   * Starts the heartbeat, and calls the handlers. Beats go on while `onBeat` runs, but not while
   * `onLost` does, which must join again.
   */
  start(handlers: { readonly onBeat: () => Promise<void>; readonly onLost: () => Promise<void> }) {
    this.#onBeat = handlers.onBeat;
    this.#onLost = handlers.onLost;
    this.#timer = setInterval(() => {
      this.beat().catch((error: unknown) => {
        this.#parts.log.warn({ err: error }, "cannot send the heartbeat of this daemon");
      });
    }, this.#parts.store.heartbeat.intervalMs);
    this.#timer.unref();
  }

  /** Lets other daemons claim at once what this one served. */
  async leave(): Promise<void> {
    clearInterval(this.#timer);
    await this.#sending?.catch(() => undefined);
    await this.#handling?.catch(() => undefined);
    await this.#parts.store.leave(this.#fence);
  }

  /** One beat and what follows from it; a slow one is not overtaken by the next. */
  async beat(): Promise<void> {
    await this.#send();
    this.#handling ??= this.#onBeat().finally(() => {
      this.#handling = undefined;
    });
    await this.#handling;
  }

  async #send(): Promise<void> {
    this.#sending ??= this.#beat().finally(() => {
      this.#sending = undefined;
    });
    await this.#sending;
  }

  /**
   * Resolves when no other daemon can have taken over what this one serves; rejects if that cannot be
   * determined. Nearly always it is known without a query.
   *
   * SECURITY: a daemon that another one replaced must not answer from memory: it could show outdated
   * state, or admit a caller who has lost access since (threat: a stalled daemon). Guarded by
   * membership.test.ts and tests/docker/several-daemons.test.ts.
   */
  certain(): Promise<void> | undefined {
    if (this.#parts.store.heartbeat.deadAfterMs === undefined) return undefined;
    return this.#parts.clock.monotonicMs() < this.#sureUntilMs ? undefined : this.#makeSure();
  }

  async #makeSure(): Promise<void> {
    try {
      await this.#send();
    } catch (error) {
      throw heldForDead(error);
    }
    if (this.#parts.clock.monotonicMs() >= this.#sureUntilMs) throw heldForDead();
  }

  async #beat(): Promise<void> {
    const { store } = this.#parts;
    const reading = this.#reading();
    const storeMs = await store.beat(this.#fence, this.storeMs(), reading);
    if (storeMs === undefined) {
      this.#parts.log.warn(
        { fence: this.#fence },
        "another daemon took over the sessions of this one",
      );
      this.#sureUntilMs = 0;
      await this.#onLost();
      return;
    }
    this.#settle(storeMs, reading);
  }

  /** `storeMs` was the time when the clocks were read, or slightly later. */
  #settle(storeMs: number, { monotonicMs }: ClockReading): void {
    const { deadAfterMs = Number.POSITIVE_INFINITY } = this.#parts.store.heartbeat;
    const known = this.#storeMs + (monotonicMs - this.#readAtMs);
    this.#storeMs = this.#readAtMs === 0 ? storeMs : Math.max(storeMs, known);
    this.#readAtMs = monotonicMs;
    this.#sureUntilMs = monotonicMs + SURE_SHARE * deadAfterMs;
  }

  #reading(): ClockReading {
    const { clock } = this.#parts;
    return { bootId: clock.bootId, monotonicMs: clock.monotonicMs(), wallMs: clock.nowMs() };
  }
}
