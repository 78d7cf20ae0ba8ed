/** Ensures that only one daemon at a time uses a data directory. */
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { SandboxError } from "@sandkasten/protocol";
import { isSqliteKind, SQLITE, storeFailure } from "./store/sqlite/store-failure.ts";

/**
 * SECURITY: a second daemon would treat the first one's sandboxes as orphans and destroy them. The
 * kernel releases the lock when the process ends, even on a kill. Guarded by data-dir-lock.test.ts.
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
      `another daemon is using ${dataDir}; stop it, or set a different data_dir for this one`,
      { cause },
    );
  }
  const locked = database;
  return { [Symbol.dispose]: () => locked.close() };
}
