/** How callers follow events. */
import type { EventFollower, FollowEvents } from "../../events/feed.ts";
import type { Caller } from "./caller.ts";

export interface WatchEvents {
  /** Only this session's. */
  readonly sessionId?: string;
  /** Only this owner's; callers other than an administrator may only name themselves. */
  readonly owner?: string;
  readonly types?: ReadonlySet<string>;
  readonly from: FollowEvents["from"];
  /** Ends after the current events. */
  readonly once?: boolean;
  readonly signal: AbortSignal;
}

export interface EventService {
  /** QUOTA_EXCEEDED if the caller has too many streams; SESSION_NOT_FOUND as everywhere. */
  open(caller: Caller, options: WatchEvents): Promise<EventFollower>;
}
