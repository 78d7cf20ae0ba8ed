/** The last known state of a session, also as its own fields. */
import type { SessionInfo } from "./session-types.ts";
import { withSnakeNames } from "./snake-names.ts";

class KnownSession {
  #info: SessionInfo;

  constructor(info: SessionInfo) {
    this.#info = info;
    this.learn(info);
  }

  /** The session's state when it was last requested; its fields are also the session's own. */
  get lastInfo(): SessionInfo {
    return this.#info;
  }

  /** @internal */
  protected learn(info: SessionInfo): SessionInfo {
    this.#info = info;
    for (const name of Object.keys(info)) {
      // Already known, or a newer daemon's name for what is a method here; fields of this class may
      // be set later.
      if (name in this) continue;
      const get = (): unknown => Reflect.get(this.#info, name);
      Object.defineProperty(this, name, { get, enumerable: true, configurable: true });
    }
    withSnakeNames(this);
    return info;
  }
}

/** The fields come from the info, which the class itself cannot declare. */
export const SessionState = KnownSession as new (info: SessionInfo) => KnownSession & SessionInfo;
