/** Events filtered by what the caller may see. */
import { ownersOf } from "../sessions/owners.ts";
import type { Caller } from "../sessions/services/caller.ts";
import type { EventService, WatchEvents } from "../sessions/services/event-service.ts";
import type { SessionService } from "../sessions/services/session-service.ts";
import type { EventHub } from "./event-hub.ts";
import type { EventFollower } from "./feed.ts";

export class CallersEvents implements EventService {
  readonly #hub: EventHub;
  readonly #sessions: SessionService;
  /** Resolves when the events of everything that clients can already know are recorded. */
  readonly #flushed: () => Promise<void>;

  constructor(hub: EventHub, sessions: SessionService, flushed: () => Promise<void>) {
    this.#hub = hub;
    this.#sessions = sessions;
    this.#flushed = flushed;
  }

  async open(
    caller: Caller,
    { sessionId, owner, ...options }: WatchEvents,
  ): Promise<EventFollower> {
    if (sessionId !== undefined) await this.#sessions.look(caller, sessionId);
    await this.#flushed();
    return await this.#hub.open({
      ...options,
      ...ownersOf(caller, owner),
      ...(sessionId !== undefined && { sessionId }),
      follower: caller.owner,
    });
  }
}
