/** Takes events from the core, and writes them down together a moment later. */
import { setImmediate as otherWork } from "node:timers/promises";
import type { AnyEventData } from "@sandkasten/protocol";
import type { Clock } from "../ports/clock.ts";
import type { EventLog, EventRetention, NewEvent } from "../ports/event-log.ts";
import type { Log } from "../ports/log.ts";

/** How long an event may wait to be written down with others. */
const FLUSH_MS = 20;
/** So many do not wait any longer. */
const FLUSH_EVENTS = 256;
/** Events that wait while the log cannot be written; more are counted and told of later. */
const MAX_WAITING = 8192;
const RETRY_MS = 1000;
const PRUNE_INTERVAL_MS = 1000;

/** What happened, as the core tells it. */
export type Happening = AnyEventData & {
  /** Empty for the daemon itself. */
  readonly owner: string;
  readonly sessionId?: string;
  /** Now when absent. */
  readonly atMs?: number;
};

export type EventListener = (events: readonly NewEvent[]) => void;

/** What the core needs to know of the feed. */
export interface Events {
  /** Costs its caller next to nothing. A kill -9 within the next moment may lose it. */
  tell(happening: Happening): void;
  /** As `tell`, and resolves when it, and all that was told before, is written down. Never rejects. */
  tellNow(happening: Happening): Promise<void>;
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
  /** By owner, how many could not be kept. */
  readonly #lost = new Map<string, number>();
  #timer: NodeJS.Timeout | undefined;
  #writing: Promise<void> = Promise.resolve();
  #pruning: NodeJS.Timeout | undefined;
  #isFailing = false;
  #isClosed = false;

  constructor(parts: EventRecorderParts) {
    this.#parts = parts;
  }

  /** Metrics and log lines are made of the same events, as they are told, written down or not. */
  onEvents(listener: EventListener): void {
    this.#listeners.push(listener);
  }

  tell(happening: Happening): void {
    if (this.#isClosed) return;
    const event = { atMs: this.#parts.clock.nowMs(), ...happening };
    this.#inform([event]);
    if (this.#waiting.length >= MAX_WAITING) {
      this.#lost.set(happening.owner, (this.#lost.get(happening.owner) ?? 0) + 1);
      return;
    }
    this.#waiting.push(event);
    if (this.#waiting.length === FLUSH_EVENTS && !this.#isFailing) void this.flush();
    else this.#timer ??= setTimeout(() => void this.flush(), this.#isFailing ? RETRY_MS : FLUSH_MS);
  }

  async tellNow(happening: Happening): Promise<void> {
    this.tell(happening);
    if (!this.#isFailing) await this.flush();
  }

  /** Resolves when what was told until now is written down, or could not be. */
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
      if (!this.#isFailing) this.#parts.log.error({ err: error }, "cannot write events down");
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

  /** Whoever reads is told that something is missing. */
  #lostEvents() {
    const atMs = this.#parts.clock.nowMs();
    const told = [...this.#lost].map(
      ([owner, events]) => ({ type: "events.lost", owner, atMs, data: { events } }) as const,
    );
    this.#lost.clear();
    return told;
  }

  #inform(events: readonly NewEvent[]): void {
    for (const listener of this.#listeners)
      try {
        listener(events);
      } catch (error) {
        this.#parts.log.error({ err: error }, "a listener of events failed");
      }
  }

  async #prune(): Promise<void> {
    const { eventLog, retention, clock, log } = this.#parts;
    try {
      while (!this.#isClosed && !(await eventLog.prune(retention, clock.nowMs())))
        await otherWork();
    } catch (error) {
      log.error({ err: error }, "cannot remove old events; tried again with the next ones");
    }
    this.#pruning = undefined;
  }
}
