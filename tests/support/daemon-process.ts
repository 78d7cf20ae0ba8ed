/**
 * A daemon in a process of its own, so that tests can kill it: `node daemon-process.ts`, configured by
 * SANDKASTEN_* variables alone. One line of JSON says where it listens. SIGTERM stops it.
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
