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
    const { code, message } = describeFailure(cause);
    if (code !== "CONFLICT") throw cause;
    throw new CliFailure(message, {
      hint: "A daemon may run already: `sandkasten doctor` tells. Two need different --listen and --data-dir.",
      code,
      cause,
    });
  }
}
