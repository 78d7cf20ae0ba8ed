/** Notifies subscribers of changed files, with one watch per sandbox. */
import type { Session } from "@sandkasten/sdk";
import { fileUri } from "./file-uri.ts";

type Listener = (uri: string) => void;

const WATCHED = "/workspace";

export class FileChanges {
  readonly #sandboxes: () => readonly Session[];
  readonly #onFailure: (message: string, error: unknown) => void;
  readonly #listeners = new Set<Listener>();
  readonly #watches = new Map<string, AbortController>();

  constructor(
    sandboxes: () => readonly Session[],
    onFailure: (message: string, error: unknown) => void,
  ) {
    this.#sandboxes = sandboxes;
    this.#onFailure = onFailure;
  }

  /** Watches until the last listener has left. */
  listen(listener: Listener): () => void {
    this.#listeners.add(listener);
    this.refresh();
    return () => {
      this.#listeners.delete(listener);
      if (this.#listeners.size === 0) this.#stopWatching();
    };
  }

  /** Watches newly opened sandboxes. */
  refresh(): void {
    if (this.#listeners.size === 0) return;
    for (const session of this.#sandboxes())
      if (!this.#watches.has(session.id)) void this.#watch(session);
  }

  stop(): void {
    this.#listeners.clear();
    this.#stopWatching();
  }

  #stopWatching(): void {
    for (const watch of this.#watches.values()) watch.abort();
    this.#watches.clear();
  }

  /** Never rejects: an ended sandbox has no more changes. */
  async #watch(session: Session): Promise<void> {
    const stop = new AbortController();
    this.#watches.set(session.id, stop);
    try {
      const changes = session.files.watch(WATCHED, { recursive: true, signal: stop.signal });
      for await (const { path } of changes) {
        const uri = fileUri(session.id, path);
        for (const listener of this.#listeners) listener(uri);
      }
    } catch (error) {
      if (!stop.signal.aborted) this.#onFailure("file changes are no longer reported", error);
    } finally {
      if (this.#watches.get(session.id) === stop) this.#watches.delete(session.id);
    }
  }
}
