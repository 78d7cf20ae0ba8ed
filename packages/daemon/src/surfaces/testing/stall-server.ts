/**
 * The HTTP layer in a separate process that measures how long its event loop is blocked. Started by
 * stalls.test.ts with a message channel.
 */
import { HttpFixture } from "./http-fixture.ts";

export interface StallServer {
  readonly url: string;
  /** Ids for use in paths. */
  readonly ids: { readonly session: string; readonly exec: string; readonly workspace: string };
}

/** The most that an administrator can allow. */
const MAX_BODY_BYTES = 8_388_608;
const TICK_MS = 2;

const http = await HttpFixture.start({
  unchecked: true,
  limits: { maxBodyBytes: MAX_BODY_BYTES, maxUploadBytes: 268_435_456 },
});
const session = await http.createSession({ workspace_id: "stalls" });
const { json } = await http.call(`/v1/sessions/${session}/execs`, { body: { cmd: "true" } });
// The daemon generates its API document once, soon after it listens. No client causes that.
await http.call("/openapi.json");
const server: StallServer = {
  url: http.url,
  ids: { session, exec: (json as { exec_id: string }).exec_id, workspace: "stalls" },
};

let worstMs = 0;
let before = process.threadCpuUsage();
// Processor time between two ticks, not wall time: other processes must not count.
setInterval(() => {
  const { user, system } = process.threadCpuUsage(before);
  worstMs = Math.max(worstMs, (user + system) / 1000);
  before = process.threadCpuUsage();
}, TICK_MS);

// Every message asks for the maximum since the last one.
process.on("message", () => {
  setTimeout(() => {
    process.send?.(worstMs);
    worstMs = 0;
  }, TICK_MS * 2);
});
process.on("disconnect", () => process.exit());
process.send?.(server);
