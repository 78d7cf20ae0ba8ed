/** This daemon among those that share the store: its fencing token, its heartbeat, and the store's time. */
import type { Clock } from "../ports/clock.ts";
import type { Log } from "../ports/log.ts";
import { heldForDead } from "../ports/session-store.ts";
import type { ClockReading, SessionStore } from "../ports/session-store.ts";

/** Part of the time after which a daemon is held for dead in which it may rely on not being so. */
const SURE_SHARE = 0.75;

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
  /** The store's time, and the monotonic one at the same moment. */
  #storeMs = 0;
  #readAtMs = 0;
  #sureUntilMs = 0;
  #beating: Promise<void> | undefined;
  #timer: NodeJS.Timeout | undefined;
  #onBeat: () => Promise<void> = () => Promise.resolve();
  #onLost: () => Promise<void> = () => Promise.resolve();

  constructor(parts: MembershipParts) {
    this.#parts = parts;
  }

  /** The token that everything this daemon serves carries. */
  get fence(): number {
    return this.#fence;
  }

  /** What leases are counted in. */
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

  /** From now on it says at intervals that it lives, and calls what is to be done then. */
  start(handlers: { readonly onBeat: () => Promise<void>; readonly onLost: () => Promise<void> }) {
    this.#onBeat = handlers.onBeat;
    this.#onLost = handlers.onLost;
    this.#timer = setInterval(() => {
      this.beat().catch((error: unknown) => {
        this.#parts.log.warn({ err: error }, "cannot say that this daemon lives");
      });
    }, this.#parts.store.heartbeat.intervalMs);
    this.#timer.unref();
  }

  /** What this daemon served may be claimed by others at once. */
  async leave(): Promise<void> {
    clearInterval(this.#timer);
    await this.#beating?.catch(() => undefined);
    await this.#parts.store.leave(this.#fence);
  }

  /** One beat; one that takes long is not overtaken by the next. */
  async beat(): Promise<void> {
    this.#beating ??= this.#beat().finally(() => {
      this.#beating = undefined;
    });
    await this.#beating;
  }

  /**
   * Resolves when no other daemon can have taken over what this one serves; rejects when that cannot be
   * said. Nearly always it is known without asking.
   *
   * SECURITY: a daemon that stood still while another took over must not answer from its memory: it
   * would show what is not true any more, or let somebody in who was put out since. Guarded by
   * tests/docker/several-daemons.test.ts.
   */
  certain(): Promise<void> | undefined {
    if (this.#parts.store.heartbeat.deadAfterMs === undefined) return undefined;
    return this.#parts.clock.monotonicMs() < this.#sureUntilMs ? undefined : this.#makeSure();
  }

  async #makeSure(): Promise<void> {
    try {
      await this.beat();
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
      this.#parts.log.warn({ fence: this.#fence }, "another daemon took over what this one served");
      this.#sureUntilMs = 0;
      await this.#onLost();
      return;
    }
    this.#settle(storeMs, reading);
    await this.#onBeat();
  }

  /** `storeMs` was the time when the clocks were read, or a little later. */
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
