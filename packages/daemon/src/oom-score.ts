/** Lets the kernel take sandboxes, and nearly all else, before the daemon when memory runs out. */
import { readFile, writeFile } from "node:fs/promises";
import type { Logger } from "pino";

const DAEMON_SCORE = -500;

/**
 * SECURITY: the second line, where the daemon has CAP_SYS_RESOURCE: with it, code that had lowered its
 * own score as far as it can still goes first (threat: exhausting memory). Without it the score stays
 * as it was given, which `OOMScoreAdjust=` of a service manager can change.
 */
export async function lowerOomScore(
  log: Pick<Logger, "debug">,
  path = "/proc/self/oom_score_adj",
): Promise<void> {
  try {
    if (Number(await readFile(path, "utf8")) <= DAEMON_SCORE) return;
    await writeFile(path, String(DAEMON_SCORE));
  } catch (error) {
    log.debug({ err: error }, "the score for the out-of-memory killer stays as it is");
  }
}
