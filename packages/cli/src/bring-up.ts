/** Starts the daemon inside this process. */
import type { Daemon } from "@sandkasten/daemon";
import type { Config } from "@sandkasten/daemon/config";
import { CliFailure } from "./failure.ts";
import type { Interrupts } from "./interrupts.ts";
import { CONFIG_HINT, describeFailure } from "./report-failure.ts";

/** How long an interrupted start may take to reach a point where it can be aborted. */
const GIVE_UP_MS = 10_000;
/** The exit code for a data directory of another program. */
const FOREIGN_EXIT_CODE = 3;

export async function bringUp(
  config: Config,
  interrupts: Interrupts,
  onProgress?: (stage: string) => void,
): Promise<Daemon> {
  // Loaded on demand: it is large, and most commands do not need it.
  const { startDaemon } = await import("@sandkasten/daemon");
  const { signal } = interrupts;
  // Even if the start hangs, a signal ends the process.
  const giveUp = Promise.withResolvers<never>();
  const onInterrupt = (): void => {
    setTimeout(() => giveUp.reject(signal.reason), GIVE_UP_MS).unref();
  };
  signal.addEventListener("abort", onInterrupt, { once: true });
  try {
    const started = startDaemon(config, {
      signal,
      ...(onProgress !== undefined && { onProgress }),
    });
    return await Promise.race([started, giveUp.promise]);
  } catch (cause) {
    throw startFailure(cause);
  } finally {
    signal.removeEventListener("abort", onInterrupt);
  }
}

/** The hints for a conflict with a running daemon are about sessions, and wrong here. */
export function startFailure(cause: unknown): unknown {
  const { code, message } = describeFailure(cause);
  if (code === "INVALID_REQUEST")
    return new CliFailure(message, {
      hint: CONFIG_HINT,
      code,
      cause,
    });
  if (code !== "CONFLICT") return cause;
  const other = FOREIGN_HINTS.get(reasonOf(cause));
  if (other !== undefined) {
    const hint = `${other}; sessions and images of the older program are not imported.`;
    return new CliFailure(message, { hint, code, cause, exitCode: FOREIGN_EXIT_CODE });
  }
  const hint = isHeldByAnother(cause)
    ? "A daemon may already be running: check with `sandkasten doctor`. Two daemons need different --listen and --data-dir."
    : "`sandkasten doctor` checks the machine and the daemon.";
  return new CliFailure(message, { hint, code, cause });
}

/** By the reason that the daemon gives: what is another program's. */
const FOREIGN_HINTS: ReadonlyMap<unknown, string> = new Map([
  ["foreign_data_dir", "Start with --data-dir DIRECTORY or SANDKASTEN_DATA_DIR"],
  ["foreign_db_path", "Start with --set db_path=FILE or SANDKASTEN_DB_PATH"],
]);

function reasonOf(error: unknown): unknown {
  const details = error instanceof Error && "details" in error ? error.details : undefined;
  return Object(details).reason;
}

/** SQLite's code for a file that another process has locked, whether the lock or the database. */
const SQLITE_BUSY = 5;

function isHeldByAnother(error: unknown): boolean {
  const cause = error instanceof Error ? error.cause : undefined;
  return cause instanceof Error && "errcode" in cause && primaryCode(cause.errcode) === SQLITE_BUSY;
}

/** The other bits give more detail. */
function primaryCode(errcode: unknown): number {
  return Number(errcode) & 0xff;
}
