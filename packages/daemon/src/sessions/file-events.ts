/** Emits events for changed files, coalescing many changes in a short time. */
import type { Events } from "../events/recorder.ts";
import type { SessionRow } from "../ports/session-store.ts";
import type { FileLocation, FileWrite } from "./services/file-service.ts";

const TOGETHER_MS = 250;
const MAX_PATHS = 8;
const MAX_PATH_LENGTH = 1024;

interface Changes {
  readonly write: FileWrite;
  readonly paths: Set<string>;
  readonly timer: NodeJS.Timeout;
  changes: number;
  more: boolean;
}

/** Excludes what commands write: that happens inside the sandbox, and can be watched. */
export class FileEvents {
  readonly #events: Events;
  /** By session or workspace. */
  readonly #pending = new Map<string, Changes>();

  constructor(events: Events) {
    this.#events = events;
  }

  note(write: FileWrite): void {
    const { owner, location } = write;
    const name = nameOf(location, owner);
    let pending = this.#pending.get(name);
    if (pending === undefined) {
      const timer = setTimeout(() => this.#record(name), TOGETHER_MS);
      pending = { write, paths: new Set(), timer, changes: 0, more: false };
      this.#pending.set(name, pending);
    }
    pending.changes += 1;
    const path = write.path.path.slice(0, MAX_PATH_LENGTH);
    if (pending.paths.size < MAX_PATHS) pending.paths.add(path);
    else if (!pending.paths.has(path)) pending.more = true;
  }

  /** Call before the end of a session is recorded, which is its last event. */
  flushSession({ id, owner }: Pick<SessionRow, "id" | "owner">): void {
    this.#record(nameOf({ kind: "session", id }, owner));
  }

  /** Call when the daemon stops. */
  flush(): void {
    for (const name of this.#pending.keys()) this.#record(name);
  }

  #record(name: string): void {
    const pending = this.#pending.get(name);
    if (pending === undefined) return;
    this.#pending.delete(name);
    clearTimeout(pending.timer);
    const { write, changes, more } = pending;
    const { owner, location } = write;
    const data = { changes, paths: [...pending.paths], more };
    if (location.kind === "session")
      this.#events.record({ type: "file.changed", owner, sessionId: location.id, data });
    else
      this.#events.record({
        type: "file.changed",
        owner,
        data: { ...data, workspace_id: location.id },
      });
  }
}

function nameOf({ kind, id }: FileLocation, owner: string): string {
  return `${kind} ${id} ${owner}`;
}
