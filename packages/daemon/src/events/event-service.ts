/** Events as callers may see them. */
import { SandboxError } from "@sandkasten/protocol";
import type { Caller, EventService, SessionService, WatchEvents } from "../sessions/services.ts";
import type { EventHub } from "./event-hub.ts";
import type { EventFollower } from "./feed.ts";

export class CallersEvents implements EventService {
  readonly #hub: EventHub;
  readonly #sessions: SessionService;

  constructor(hub: EventHub, sessions: SessionService) {
    this.#hub = hub;
    this.#sessions = sessions;
  }

  async open(
    caller: Caller,
    { sessionId, owner, ...options }: WatchEvents,
  ): Promise<EventFollower> {
    if (sessionId !== undefined) await this.#sessions.get(caller, sessionId);
    return await this.#hub.open({
      ...options,
      ...scopeOf(caller, owner),
      ...(sessionId !== undefined && { sessionId }),
      follower: caller.owner,
    });
  }
}

/**
 * SECURITY: the owner of what is read comes from the key, and only an administrator's key reads what
 * is of others or of the daemon itself. Guarded by routes/events.test.ts.
 */
function scopeOf(caller: Caller, asked: string | undefined): { readonly owner?: string } {
  if (caller.isAdmin) return asked === undefined ? {} : { owner: asked };
  if (asked !== undefined && asked !== caller.owner)
    throw new SandboxError(
      "PERMISSION_DENIED",
      "only an administrator's key reads the events of another owner; leave `owner` out for your own",
    );
  return { owner: caller.owner };
}
