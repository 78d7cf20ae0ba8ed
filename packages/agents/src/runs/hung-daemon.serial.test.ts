/**
 * A daemon that accepts connections but does not respond ends runs instead of blocking them
 * forever.
 */
import { once } from "node:events";
import { createServer } from "node:net";
import type { AddressInfo } from "node:net";
import { expect, test } from "vitest";
import { TestDaemon } from "../../../../tests/support/test-daemon.ts";
import { AgentFixture, agent } from "../testing/agent-fixture.ts";

const RUN_SECONDS = 8;
const AGENTS = { coder: agent(`timeout_seconds: ${RUN_SECONDS}\nsandbox: { mode: code }`) };
const exec = (command: string) => ({
  calls: [{ name: "sandbox_exec", arguments: { command, timeout_seconds: 600 } }],
});
const PATIENCE = { timeout: 60_000, interval: 100 };
const UNAVAILABLE = {
  status: "failed",
  error: {
    code: "DAEMON_UNAVAILABLE",
    message: expect.stringMatching(/daemon has stopped answering. .*sandkasten doctor/) as string,
  },
};

test("a daemon that hangs in the middle of a command fails the run", async () => {
  await using daemon = await TestDaemon.start();
  await using fixture = await AgentFixture.start({
    agents: AGENTS,
    daemon,
    daemonWatch: { intervalMs: 50, deadlineMs: 8_000 },
  });
  // The first command prints nothing for longer than the run's timeout and many health checks.
  fixture.model.play([
    exec(`sleep ${RUN_SECONDS + 1}`),
    exec("echo begun; sleep 600"),
    { text: "never" },
  ]);
  const id = await fixture.client.execute("coder", { task: "x" });
  await fixture.until(id, "tool_output");
  process.kill(daemon.pid, "SIGSTOP");
  try {
    const status = async (): Promise<string> => (await fixture.client.run(id)).status;
    await expect.poll(status, PATIENCE).not.toBe("running");
    expect(await fixture.client.run(id)).toMatchObject(UNAVAILABLE);
    expect((await fixture.eventsOf(id)).at(-1)).toMatchObject({
      type: "run_ended",
      ...UNAVAILABLE,
    });
  } finally {
    process.kill(daemon.pid, "SIGCONT");
  }
});

test("a daemon that never responds fails the run", async () => {
  const sockets = new Set<{ destroy(): void }>();
  const mute = createServer((socket) => sockets.add(socket.on("error", () => undefined)));
  mute.listen(0, "127.0.0.1");
  await once(mute, "listening");
  const url = `http://127.0.0.1:${(mute.address() as AddressInfo).port}`;
  try {
    await using fixture = await AgentFixture.start({
      agents: AGENTS,
      daemon: { url, apiKey: "not-checked" },
      daemonWatch: { intervalMs: 5, deadlineMs: 20 },
    });
    const run = await fixture.run("coder", [exec("true"), { text: "never" }]);
    expect(run).toMatchObject(UNAVAILABLE);
    expect(fixture.model.requests).toHaveLength(1);
  } finally {
    for (const socket of sockets) socket.destroy();
    mute.close();
  }
});
