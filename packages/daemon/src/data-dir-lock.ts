/** Makes sure that one daemon at a time works on a data directory. */
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { SandboxError } from "@sandkasten/protocol";

/**
 * SECURITY: a second daemon would take the first one's sandboxes for orphans and destroy them. The
 * kernel drops the lock with the process, however it ends. Guarded by data-dir-lock.test.ts.
 */
export function lockDataDir(dataDir: string): Disposable {
  const database = new DatabaseSync(join(dataDir, "daemon.lock"));
  try {
    database.exec("PRAGMA locking_mode = EXCLUSIVE; BEGIN EXCLUSIVE; COMMIT;");
  } catch (cause) {
    database.close();
    throw new SandboxError(
      "CONFLICT",
      `another daemon works on ${dataDir}; stop it, or give this one another data_dir`,
      { cause },
    );
  }
  return { [Symbol.dispose]: () => database.close() };
}
