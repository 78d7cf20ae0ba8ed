/** Starts the daemon inside this process. */
import type { Daemon } from "@sandkasten/daemon";
import type { Config } from "@sandkasten/daemon/config";
import { CliFailure } from "./failure.ts";
import type { Interrupts } from "./interrupts.ts";
import { CONFIG_HINT, describeFailure } from "./report-failure.ts";

/** How long a start that is interrupted may take to get to where it can be given up. */
const GIVE_UP_MS = 10_000;
/** Of a data directory that is another program's. */
const FOREIGN_EXIT_CODE = 3;

export async function bringUp(
  config: Config,
  interrupts: Interrupts,
  onProgress?: (stage: string) => void,
): Promise<Daemon> {
  // Loaded here only: it is large, and most commands do without.
  const { startDaemon } = await import("@sandkasten/daemon");
  const { signal } = interrupts;
  // Whatever the start hangs on, the process ends when it is told to.
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

/** What the hints for a daemon that answers say of a conflict is about sessions, and wrong here. */
export function startFailure(cause: unknown): unknown {
  const { code, message } = describeFailure(cause);
  if (code === "INVALID_REQUEST")
    return new CliFailure(message, {
      hint: CONFIG_HINT,
      code,
      cause,
    });
  if (code !== "CONFLICT") return cause;
  if (isForeign(cause))
    return new CliFailure(message, {
      hint: "Start with --data-dir DIRECTORY or SANDKASTEN_DATA_DIR; sessions and images of the older program are not taken over.",
      code,
      cause,
      exitCode: FOREIGN_EXIT_CODE,
    });
  const hint = isHeldByAnother(cause)
    ? "A daemon may run already: `sandkasten doctor` tells. Two need different --listen and --data-dir."
    : "`sandkasten doctor` checks the machine and the daemon.";
  return new CliFailure(message, { hint, code, cause });
}

function isForeign(error: unknown): boolean {
  const details = error instanceof Error && "details" in error ? error.details : undefined;
  return Object(details).reason === "foreign_data_dir";
}

/** What SQLite says of a file that another process has, be it the lock or the database. */
const SQLITE_BUSY = 5;

function isHeldByAnother(error: unknown): boolean {
  const cause = error instanceof Error ? error.cause : undefined;
  return cause instanceof Error && "errcode" in cause && primaryCode(cause.errcode) === SQLITE_BUSY;
}

/** The rest of the bits says more exactly how. */
function primaryCode(errcode: unknown): number {
  return Number(errcode) & 0xff;
}
