/** Makes sure that one daemon at a time works on a data directory. */
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { SandboxError } from "@sandkasten/protocol";
import { isSqliteKind, SQLITE, storeFailure } from "./store/sqlite/store-failure.ts";

/**
 * SECURITY: a second daemon would take the first one's sandboxes for orphans and destroy them. The
 * kernel drops the lock with the process, however it ends. Guarded by data-dir-lock.test.ts.
 */
export function lockDataDir(dataDir: string): Disposable {
  const path = join(dataDir, "daemon.lock");
  let database: DatabaseSync | undefined;
  try {
    database = new DatabaseSync(path);
    database.exec("PRAGMA locking_mode = EXCLUSIVE; BEGIN EXCLUSIVE; COMMIT;");
  } catch (cause) {
    database?.close();
    if (!isSqliteKind(cause, SQLITE.BUSY)) throw storeFailure(cause, path, "locking it");
    throw new SandboxError(
      "CONFLICT",
      `another daemon works on ${dataDir}; stop it, or give this one another data_dir`,
      { cause },
    );
  }
  const locked = database;
  return { [Symbol.dispose]: () => locked.close() };
}
