/**
 * A daemon to measure, in a separate process and configured only by SANDKASTEN_* variables. It
 * tells its parent where it listens, collects garbage or reports its processor time on request, and
 * stops when its parent disconnects.
 */
import { loadConfig, startDaemon } from "@sandkasten/daemon";
import type { DaemonMessage, DaemonQuestion } from "./bench-daemon.ts";
import { collectGarbage } from "./process-memory.ts";

const config = await loadConfig({
  env: process.env,
  cwd: "/",
  home: "/nonexistent",
  isRoot: process.getuid?.() === 0,
});
const daemon = await startDaemon(config);
process.on("message", (question: DaemonQuestion) => {
  if (question === "processor time") {
    const { user, system } = process.cpuUsage();
    sendToParent({ processorTimeUs: user + system });
  } else {
    collectGarbage();
    sendToParent({ collected: true });
  }
});
process.once("disconnect", () => void daemon.stop());
sendToParent({ url: daemon.url, apiKey: daemon.apiKey });

function sendToParent(message: DaemonMessage): void {
  process.send?.(message);
}
