/** A temporary directory with a session database. */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import type { Log } from "../../../ports/log.ts";
import { SqliteSessionStore } from "../sqlite-session-store.ts";

export class StoreDirectory implements AsyncDisposable {
  /** Created when the store is first opened. */
  readonly data: string;
  readonly path: string;
  readonly #root: string;
  readonly #stores: SqliteSessionStore[] = [];

  private constructor(root: string) {
    this.#root = root;
    this.data = join(root, "data");
    this.path = join(this.data, "sessions.db");
  }

  static async make(): Promise<StoreDirectory> {
    return new StoreDirectory(await mkdtemp(join(tmpdir(), "sandkasten-store-")));
  }

  async open(log?: Log): Promise<SqliteSessionStore> {
    const store = await SqliteSessionStore.open({ path: this.path, ...(log && { log }) });
    this.#stores.push(store);
    return store;
  }

  /** Joined by a daemon, whose token is 1. */
  async openJoined(log?: Log): Promise<SqliteSessionStore> {
    const store = await this.open(log);
    await store.join(undefined, { bootId: "boot-1", monotonicMs: 0, wallMs: 0 });
    return store;
  }

  closeAll(): void {
    for (const store of this.#stores.splice(0)) store.close();
  }

  /** Changes the file without the store, which must be closed. */
  tamper(change: (database: DatabaseSync) => void): void {
    this.closeAll();
    const database = new DatabaseSync(this.path);
    try {
      change(database);
    } finally {
      database.close();
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.closeAll();
    await rm(this.#root, { recursive: true, force: true });
  }
}
