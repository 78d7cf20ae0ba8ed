/**
 * A daemon in a separate process, so tests can kill it: `node daemon-process.ts`, configured only
 * by SANDKASTEN_* variables. One line of JSON says where it listens. SIGTERM stops it.
 */
import { loadConfig, startDaemon } from "@sandkasten/daemon";

const config = await loadConfig({
  env: process.env,
  cwd: "/",
  home: "/nonexistent",
  isRoot: process.getuid?.() === 0,
});
const daemon = await startDaemon(config);
process.once("SIGTERM", () => {
  void daemon.stop();
});
process.stdout.write(`${JSON.stringify({ url: daemon.url, apiKey: daemon.apiKey })}\n`);
