/** The HTTP layer in a separate process, stopped and continued by stopped-daemon.test.ts. */
import { HttpFixture } from "./http-fixture.ts";

export interface StoppedServer {
  readonly url: string;
  readonly session: string;
}

/** Much less than the time for which the process is stopped. */
const PATIENCE_MS = 2_000;

const http = await HttpFixture.start({
  unchecked: true,
  stallTimeoutMs: PATIENCE_MS,
  pingIntervalMs: PATIENCE_MS,
  limits: { maxBodyBytes: 4_194_304, maxUploadBytes: 67_108_864 },
  replace: {
    execs: {
      /** In-memory sandboxes have no shell; `cat` also reads input. */
      async start(caller, sessionId, options) {
        const isTerminal = options.command.kind === "process" && options.command.pty !== undefined;
        const command = isTerminal ? { ...options.command, argv: ["cat"] } : options.command;
        return await this.start!(caller, sessionId, { ...options, command });
      },
    },
  },
});
const server: StoppedServer = { url: http.url, session: await http.createSession() };
process.on("disconnect", () => process.exit());
process.send?.(server);
