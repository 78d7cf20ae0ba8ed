/** Events end to end: reported by the core, stored, and followed by readers with access. */
import type { Clock } from "../ports/clock.ts";
import type { EventLog, EventRetention } from "../ports/event-log.ts";
import type { Log } from "../ports/log.ts";
import { EventFeed } from "./feed.ts";
import type { EventFollower, FeedLimits, FollowEvents } from "./feed.ts";
import { EventRecorder } from "./recorder.ts";
import type { EventListener, Events, ReportedEvent } from "./recorder.ts";

/** How often to check for events of other daemons while there are followers. */
const LOOK_INTERVAL_MS = 250;

export interface EventHubParts {
  readonly eventLog: EventLog;
  readonly clock: Clock;
  readonly log: Log;
  readonly retention: EventRetention;
  readonly limits: FeedLimits;
}

export class EventHub implements Events {
  readonly #recorder: EventRecorder;
  readonly #feed: EventFeed;
  readonly #looking: NodeJS.Timeout | undefined;
  /** Stored events of all daemons. */
  readonly log: EventLog;

  constructor(parts: EventHubParts) {
    this.log = parts.eventLog;
    this.#feed = new EventFeed(parts.eventLog, parts.limits);
    this.#recorder = new EventRecorder({ ...parts, onWritten: () => this.#feed.advance() });
    if (this.log.isShared)
      this.#looking = setInterval(() => this.#feed.advance(), LOOK_INTERVAL_MS).unref();
  }

  /** Number of open streams. */
  get followers(): number {
    return this.#feed.followers;
  }

  record(event: ReportedEvent): void {
    this.#recorder.record(event);
  }

  async recordNow(event: ReportedEvent): Promise<void> {
    await this.#recorder.recordNow(event);
  }

  onEvents(listener: EventListener): void {
    this.#recorder.onEvents(listener);
  }

  /** When it resolves, everything that happened before the call is in the log. */
  async open(options: FollowEvents): Promise<EventFollower> {
    await this.#recorder.flush();
    return this.#feed.open(options);
  }

  /** When it resolves, everything reported so far is in the log, or could not be written. */
  async flush(): Promise<void> {
    await this.#recorder.flush();
  }

  async close(): Promise<void> {
    clearInterval(this.#looking);
    await this.#recorder.close();
    await this.log.close();
  }
}
