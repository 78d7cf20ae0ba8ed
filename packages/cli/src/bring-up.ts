/** Starts the daemon inside this process. */
import type { Daemon } from "@sandkasten/daemon";
import type { Config } from "@sandkasten/daemon/config";
import { CliFailure } from "./failure.ts";
import { describeFailure } from "./report-failure.ts";

export async function bringUp(
  config: Config,
  onProgress?: (stage: string) => void,
): Promise<Daemon> {
  // Loaded here only: it is large, and most commands do without.
  const { startDaemon } = await import("@sandkasten/daemon");
  try {
    return await startDaemon(config, { ...(onProgress !== undefined && { onProgress }) });
  } catch (cause) {
    throw startFailure(cause);
  }
}

/** What the hints for a daemon that answers say of a conflict is about sessions, and wrong here. */
export function startFailure(cause: unknown): unknown {
  const { code, message } = describeFailure(cause);
  if (code !== "CONFLICT") return cause;
  const hint = isHeldByAnother(cause)
    ? "A daemon may run already: `sandkasten doctor` tells. Two need different --listen and --data-dir."
    : "`sandkasten doctor` checks the machine and the daemon.";
  return new CliFailure(message, { hint, code, cause });
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
