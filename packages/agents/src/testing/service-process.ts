/**
 * The agent service as a separate process, so that tests can kill it: `node service-process.ts DIR
 * DATA_DIR [HEARTBEAT_MS]`. One line says where it listens.
 */
import { pino } from "pino";
import { startAgentService } from "../serve.ts";

const [dir = ".", dataDir, heartbeatMs] = process.argv.slice(2);
const service = await startAgentService({
  dir,
  dataDir,
  listen: "127.0.0.1:0",
  log: pino({ level: "warn" }, pino.destination(2)),
  ...(heartbeatMs !== undefined && {
    heartbeat: { beatIntervalMs: Number(heartbeatMs) / 5, deadAfterMs: Number(heartbeatMs) },
  }),
});
process.once("SIGTERM", () => void service.close());
process.stdout.write(`${service.url}\n`);
