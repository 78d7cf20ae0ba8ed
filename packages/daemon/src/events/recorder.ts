/** Takes events from the core and writes them in batches. */
import { setImmediate as otherWork } from "node:timers/promises";
import type { AnyEventData } from "@sandkasten/protocol";
import type { Clock } from "../ports/clock.ts";
import type { EventLog, EventRetention, NewEvent } from "../ports/event-log.ts";
import type { Log } from "../ports/log.ts";

/** How long an event may wait to be written with others. */
const FLUSH_MS = 20;
/** A batch of this size is written at once. */
const FLUSH_EVENTS = 256;
/** Events that may wait while the log cannot be written; further ones are counted and reported later. */
const MAX_WAITING = 8192;
const RETRY_MS = 1000;
const PRUNE_INTERVAL_MS = 1000;

/** An event as the core reports it. */
export type ReportedEvent = AnyEventData & {
  /** Empty for the daemon itself. */
  readonly owner: string;
  readonly sessionId?: string;
  /** Now when absent. */
  readonly atMs?: number;
};

export type EventListener = (events: readonly NewEvent[]) => void;

/** What the core needs of the feed. */
export interface Events {
  /** Cheap for the caller. A kill -9 within the next few milliseconds may lose the event. */
  record(event: ReportedEvent): void;
  /** Like `record`, but resolves when this and all earlier events are written. Never rejects. */
  recordNow(event: ReportedEvent): Promise<void>;
}

export interface EventRecorderParts {
  readonly eventLog: EventLog;
  readonly clock: Clock;
  readonly log: Log;
  readonly retention: EventRetention;
  /** Called when there is more to read. */
  readonly onWritten?: () => void;
}

export class EventRecorder implements Events {
  readonly #parts: EventRecorderParts;
  readonly #listeners: EventListener[] = [];
  #waiting: NewEvent[] = [];
  /** How many events could not be kept, by owner. */
  readonly #lost = new Map<string, number>();
  #timer: NodeJS.Timeout | undefined;
  #writing: Promise<void> = Promise.resolve();
  #pruning: NodeJS.Timeout | undefined;
  #isFailing = false;
  #isClosed = false;

  constructor(parts: EventRecorderParts) {
    this.#parts = parts;
  }

  /** Calls back for each reported event, written or not; metrics and log lines are derived from it. */
  onEvents(listener: EventListener): void {
    this.#listeners.push(listener);
  }

  record(reported: ReportedEvent): void {
    if (this.#isClosed) return;
    const event = { atMs: this.#parts.clock.nowMs(), ...reported };
    this.#inform([event]);
    if (this.#waiting.length >= MAX_WAITING) {
      this.#lost.set(event.owner, (this.#lost.get(event.owner) ?? 0) + 1);
      return;
    }
    this.#waiting.push(event);
    if (this.#waiting.length === FLUSH_EVENTS && !this.#isFailing) void this.flush();
    else this.#timer ??= setTimeout(() => void this.flush(), this.#isFailing ? RETRY_MS : FLUSH_MS);
  }

  async recordNow(event: ReportedEvent): Promise<void> {
    this.record(event);
    if (!this.#isFailing) await this.flush();
  }

  /** Resolves when everything reported so far is written, or could not be. */
  async flush(): Promise<void> {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#writing = this.#writing.then(() => this.#write());
    await this.#writing;
  }

  async close(): Promise<void> {
    await this.flush();
    this.#isClosed = true;
    clearTimeout(this.#timer);
    clearTimeout(this.#pruning);
    await this.#writing;
  }

  async #write(): Promise<void> {
    if (this.#waiting.length === 0) return;
    const batch = this.#waiting;
    this.#waiting = [];
    const lost = this.#lostEvents();
    try {
      await this.#parts.eventLog.append([...batch, ...lost]);
    } catch (error) {
      if (!this.#isFailing) this.#parts.log.error({ err: error }, "cannot write events");
      this.#isFailing = true;
      this.#waiting = [...batch, ...this.#waiting];
      for (const { owner, data } of lost)
        this.#lost.set(owner, (this.#lost.get(owner) ?? 0) + data.events);
      this.#timer ??= setTimeout(() => void this.flush(), RETRY_MS);
      return;
    }
    this.#isFailing = false;
    this.#inform(lost);
    this.#parts.onWritten?.();
    this.#pruning ??= setTimeout(() => void this.#prune(), PRUNE_INTERVAL_MS).unref();
  }

  /** Lets readers know that events are missing. */
  #lostEvents() {
    const atMs = this.#parts.clock.nowMs();
    const lost = [...this.#lost].map(
      ([owner, events]) => ({ type: "events.lost", owner, atMs, data: { events } }) as const,
    );
    this.#lost.clear();
    return lost;
  }

  #inform(events: readonly NewEvent[]): void {
    for (const listener of this.#listeners)
      try {
        listener(events);
      } catch (error) {
        this.#parts.log.error({ err: error }, "an event listener failed");
      }
  }

  async #prune(): Promise<void> {
    const { eventLog, retention, clock, log } = this.#parts;
    try {
      while (!this.#isClosed && !(await eventLog.prune(retention, clock.nowMs())))
        await otherWork();
    } catch (error) {
      log.error({ err: error }, "cannot remove old events; will retry with the next ones");
    }
    this.#pruning = undefined;
  }
}
