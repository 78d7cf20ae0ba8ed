/** Keeps the newest events in memory, read from the log once for all followers. */
import type { EventLog, EventPage, EventScope, StoredEvent } from "../ports/event-log.ts";

/** Followers that are further behind read the log. */
const MAX_RECENT = 4096;
const READ_AT_ONCE = 512;

export class RecentEvents {
  readonly #log: EventLog;
  #events: StoredEvent[] = [];
  /** All events after this position, up to `#end`, are in memory. */
  #start: number | undefined;
  #end = 0;
  #news = Promise.withResolvers<void>();
  #isReading = false;
  #again = false;

  constructor(log: EventLog) {
    this.#log = log;
  }

  /** Resolves when there are more events, here or in the log. */
  changed(): Promise<void> {
    return this.#news.promise;
  }

  /** Called for the first follower after a period in which nothing was read. */
  beginAnew(): void {
    this.#reset(undefined);
  }

  advance(): void {
    this.#again = true;
    if (!this.#isReading) void this.#read();
  }

  /** Undefined if part of the requested range is not in memory. */
  after(position: number, limit: number, scope: EventScope): EventPage | undefined {
    if (this.#start === undefined || position < this.#start || position > this.#end)
      return undefined;
    const first = firstAfter(this.#events, position);
    const seen = this.#events.slice(first, first + limit);
    const isLast = first + limit >= this.#events.length;
    return {
      events: seen.filter((event) => isIn(scope, event)),
      position: isLast ? this.#end : (seen.at(-1)?.position ?? position),
      isLast,
      // The range in memory is complete.
      removedUpTo: 0,
    };
  }

  /** Never rejects. */
  async #read(): Promise<void> {
    this.#isReading = true;
    while (this.#again) {
      this.#again = false;
      const [start, end] = [this.#start, this.#end];
      try {
        if (this.#start === undefined) this.#reset(await this.#log.newest());
        const page = await this.#log.read({ after: this.#end, limit: READ_AT_ONCE });
        // Pruning has overtaken this reader: restart after it.
        if (page.removedUpTo > this.#end) this.#reset(page.position);
        else this.#take(page);
        if (!page.isLast) this.#again = true;
      } catch {
        // Followers then read the log directly, and get the error if that fails too.
        this.#reset(undefined);
      }
      if (start !== undefined && start === this.#start && end === this.#end) continue;
      const news = this.#news;
      this.#news = Promise.withResolvers();
      news.resolve();
    }
    this.#isReading = false;
  }

  #take({ events, position }: EventPage): void {
    this.#events.push(...events);
    this.#end = position;
    const surplus = this.#events.length - MAX_RECENT;
    if (surplus <= 0) return;
    // Remove many at once: removing from the front moves all others.
    const gone = this.#events.splice(0, surplus + MAX_RECENT / 4);
    this.#start = gone.at(-1)?.position ?? this.#start;
  }

  #reset(position: number | undefined): void {
    this.#events = [];
    this.#start = position;
    this.#end = position ?? 0;
  }
}

function isIn({ owner, sessionId, types }: EventScope, event: StoredEvent): boolean {
  return (
    (owner === undefined || event.owner === owner) &&
    (sessionId === undefined || event.sessionId === sessionId) &&
    (types === undefined || types.has(event.type))
  );
}

/** The events are ordered, so a binary search finds the position. */
function firstAfter(events: readonly StoredEvent[], position: number): number {
  let low = 0;
  let high = events.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if ((events[middle]?.position ?? 0) <= position) low = middle + 1;
    else high = middle;
  }
  return low;
}
