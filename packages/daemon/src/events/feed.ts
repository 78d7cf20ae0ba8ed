/** The feed: past and live events as one stream, for any number of readers at any speed. */
import { setImmediate as otherWork } from "node:timers/promises";
import { SandboxError } from "@sandkasten/protocol";
import { ownTurn } from "../event-loop-turn.ts";
import type { EventLog, EventScope, StoredEvent } from "../ports/event-log.ts";
import { Cursors } from "./cursors.ts";
import { RecentEvents } from "./recent-events.ts";

/** Events that one follower processes before others get their turn. */
const PAGE_EVENTS = 256;

export interface FeedLimits {
  readonly maxFollowers: number;
  readonly maxFollowersPerOwner: number;
}

export interface FollowEvents extends EventScope {
  /** Identifies the follower; each owner may have a limited number of them. */
  readonly follower: string;
  /** After this cursor; or from the oldest kept event, or from now on. */
  readonly from: { readonly cursor: string } | "start" | "now";
  /** Ends after the current events instead of waiting for new ones. */
  readonly once?: boolean;
  readonly signal: AbortSignal;
}

/** The follower's position with an event, a gap before what follows, or the position alone. */
export type FeedItem =
  | { readonly kind: "event"; readonly cursor: string; readonly event: StoredEvent }
  | { readonly kind: "gap"; readonly cursor: string; readonly reason: GapReason }
  | { readonly kind: "place"; readonly cursor: string };

export type GapReason = "retention" | "unknown_cursor";

/** A slot among the followers. */
export interface EventFollower extends Disposable {
  /** Call once. Rejects when the signal fires. */
  items(): AsyncIterable<FeedItem>;
}

export class EventFeed {
  readonly #log: EventLog;
  readonly #limits: FeedLimits;
  readonly #cursors: Cursors;
  readonly #recent: RecentEvents;
  /** Cached, so an event that many follow is encoded once. */
  readonly #cursorOf = new WeakMap<StoredEvent, string>();
  readonly #followers = new Map<string, number>();
  #followerCount = 0;

  constructor(log: EventLog, limits: FeedLimits) {
    this.#log = log;
    this.#limits = limits;
    this.#cursors = new Cursors(log.cursorKey);
    this.#recent = new RecentEvents(log);
  }

  get followers(): number {
    return this.#followerCount;
  }

  /** Signals that the log has more events. */
  advance(): void {
    if (this.#followerCount > 0) this.#recent.advance();
  }

  /**
   * Takes a slot, to be released by disposal. Rejects with QUOTA_EXCEEDED if there are too many
   * followers. Unread events stay in the log, never in memory.
   */
  open(options: FollowEvents): EventFollower {
    const leave = this.#enter(options.follower);
    return { items: () => this.#items(options), [Symbol.dispose]: leave };
  }

  async *#items(options: FollowEvents): AsyncGenerator<FeedItem> {
    const { from, once = false, signal } = options;
    const known = typeof from === "string" ? undefined : this.#cursors.decode(from.cursor);
    const newest = await this.#log.newest();
    // A cursor beyond the newest position comes from a log that was replaced by an older one.
    const isUnknown = typeof from !== "string" && (known === undefined || known > newest);
    let position = from === "now" ? newest : isUnknown ? 0 : (known ?? 0);
    // A reader from the start never knew of removed events before it.
    let knownUpTo = from === "start" || isUnknown ? undefined : position;
    if (isUnknown) yield this.#gap(position, "unknown_cursor");
    yield { kind: "place", cursor: this.#cursors.encode(position) };
    for (;;) {
      signal.throwIfAborted();
      // Many followers may have to read at the same time.
      await ownTurn();
      const news = this.#recent.changed();
      const page =
        (once ? undefined : this.#recent.after(position, PAGE_EVENTS, options)) ??
        (await this.#log.read({ ...options, after: position, limit: PAGE_EVENTS }));
      knownUpTo ??= page.removedUpTo;
      if (page.removedUpTo > Math.max(position, knownUpTo)) {
        knownUpTo = page.removedUpTo;
        yield this.#gap(position, "retention");
      }
      for (const event of page.events)
        yield { kind: "event", cursor: this.#cursorAfter(event), event };
      position = page.position;
      if (!page.isLast) await otherWork();
      else if (once) return;
      else await untilNews(news, signal);
    }
  }

  #cursorAfter(event: StoredEvent): string {
    let cursor = this.#cursorOf.get(event);
    if (cursor === undefined) {
      cursor = this.#cursors.encode(event.position);
      this.#cursorOf.set(event, cursor);
    }
    return cursor;
  }

  #gap(position: number, reason: GapReason): FeedItem {
    return { kind: "gap", cursor: this.#cursors.encode(position), reason };
  }

  /** SECURITY: the followers of one owner never take the slots of others. Guarded by feed.test.ts. */
  #enter(follower: string): () => void {
    const { maxFollowers, maxFollowersPerOwner } = this.#limits;
    const own = this.#followers.get(follower) ?? 0;
    if (own >= maxFollowersPerOwner || this.#followerCount >= maxFollowers)
      throw new SandboxError(
        "QUOTA_EXCEEDED",
        own >= maxFollowersPerOwner
          ? `at most ${maxFollowersPerOwner} event streams may be open at once; close some first`
          : "the daemon has reached its limit of open event streams; try again later",
        { details: { max_event_streams: maxFollowersPerOwner } },
      );
    if (this.#followerCount === 0) this.#recent.beginAnew();
    this.#followers.set(follower, own + 1);
    this.#followerCount += 1;
    let isLeft = false;
    return () => {
      if (isLeft) return;
      isLeft = true;
      const left = (this.#followers.get(follower) ?? 1) - 1;
      if (left === 0) this.#followers.delete(follower);
      else this.#followers.set(follower, left);
      this.#followerCount -= 1;
    };
  }
}

async function untilNews(news: Promise<void>, signal: AbortSignal): Promise<void> {
  signal.throwIfAborted();
  const aborted = Promise.withResolvers<never>();
  const abort = (): void => aborted.reject(signal.reason as Error);
  signal.addEventListener("abort", abort, { once: true });
  try {
    await Promise.race([news, aborted.promise]);
  } finally {
    signal.removeEventListener("abort", abort);
  }
}
