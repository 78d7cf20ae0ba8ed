/**
 * Makes the kernel kill sandboxes, and nearly everything else, before the daemon when memory runs
 * out.
 */
import { readFile, writeFile } from "node:fs/promises";
import type { Logger } from "pino";

const DAEMON_SCORE = -500;

/**
 * SECURITY: a second layer, where the daemon has CAP_SYS_RESOURCE: code that lowered its own score
 * as far as possible is still killed first (threat: exhausting memory). Without the capability the
 * score stays as inherited, which a service manager can set with `OOMScoreAdjust=`.
 */
export async function lowerOomScore(
  log: Pick<Logger, "debug">,
  path = "/proc/self/oom_score_adj",
): Promise<void> {
  try {
    if (Number(await readFile(path, "utf8")) <= DAEMON_SCORE) return;
    await writeFile(path, String(DAEMON_SCORE));
  } catch (error) {
    log.debug({ err: error }, "could not lower the score for the out-of-memory killer");
  }
}
