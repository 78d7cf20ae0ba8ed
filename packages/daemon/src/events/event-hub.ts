/** Events from end to end: told by the core, written down, and followed by whoever may see them. */
import type { Clock } from "../ports/clock.ts";
import type { EventLog, EventRetention } from "../ports/event-log.ts";
import type { Log } from "../ports/log.ts";
import { EventFeed } from "./feed.ts";
import type { EventFollower, FeedLimits, FollowEvents } from "./feed.ts";
import { EventRecorder } from "./recorder.ts";
import type { EventListener, Events, Happening } from "./recorder.ts";

/** How often events of other daemons are looked for while somebody follows. */
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
  /** What was written down, by whichever daemon. */
  readonly log: EventLog;

  constructor(parts: EventHubParts) {
    this.log = parts.eventLog;
    this.#feed = new EventFeed(parts.eventLog, parts.limits);
    this.#recorder = new EventRecorder({ ...parts, onWritten: () => this.#feed.advance() });
    if (this.log.isShared)
      this.#looking = setInterval(() => this.#feed.advance(), LOOK_INTERVAL_MS).unref();
  }

  /** Streams that are open. */
  get followers(): number {
    return this.#feed.followers;
  }

  tell(happening: Happening): void {
    this.#recorder.tell(happening);
  }

  async tellNow(happening: Happening): Promise<void> {
    await this.#recorder.tellNow(happening);
  }

  onEvents(listener: EventListener): void {
    this.#recorder.onEvents(listener);
  }

  /** What happened before this call is in the log when it resolves. */
  async open(options: FollowEvents): Promise<EventFollower> {
    await this.#recorder.flush();
    return this.#feed.open(options);
  }

  /** What was told until now is in the log when it resolves, or could not be written. */
  async flush(): Promise<void> {
    await this.#recorder.flush();
  }

  async close(): Promise<void> {
    clearInterval(this.#looking);
    await this.#recorder.close();
    await this.log.close();
  }
}
