/** The last known state of a session, in its own fields. */
import type { SessionInfo } from "./session-types.ts";
import { withSnakeNames } from "./snake-names.ts";

class KnownSession {
  #info: SessionInfo;

  constructor(info: SessionInfo) {
    this.#info = info;
    this.learn(info);
  }

  /** What was known of it when it was last asked for; its fields are also the session's own. */
  get lastInfo(): SessionInfo {
    return this.#info;
  }

  /** @internal */
  protected learn(info: SessionInfo): SessionInfo {
    this.#info = info;
    for (const name of Object.keys(info)) {
      // Known already, or a newer daemon's word for what is a method here; what is a field here
      // may take the place later.
      if (name in this) continue;
      const get = (): unknown => Reflect.get(this.#info, name);
      Object.defineProperty(this, name, { get, enumerable: true, configurable: true });
    }
    withSnakeNames(this);
    return info;
  }
}

/** The fields come with the info, which the class itself cannot say. */
export const SessionState = KnownSession as new (info: SessionInfo) => KnownSession & SessionInfo;
