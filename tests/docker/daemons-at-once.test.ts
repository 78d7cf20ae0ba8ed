/** Several daemons that do the same at once, or one of them late because it was stopped. */
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { ask, DaemonCluster, LONG } from "../support/daemon-cluster.ts";
import type { TestDaemon } from "../support/test-daemon.ts";

/** How soon all daemons refuse a key that one of them revoked, according to the guide. */
const REVOKED_MS = 2000;

let cluster: DaemonCluster;
beforeAll(async () => {
  cluster = await DaemonCluster.start();
});
afterAll(async () => await cluster[Symbol.asyncDispose]());

/** Stops the daemon while it waits for the engine, and continues both after the work. */
async function whileStopped(
  daemon: TestDaemon,
  late: { readonly release: () => void },
  work: () => Promise<void>,
): Promise<void> {
  process.kill(daemon.pid, "SIGSTOP");
  try {
    await work();
  } finally {
    late.release();
    process.kill(daemon.pid, "SIGCONT");
  }
}

describe("one idempotency key, sent through three daemons at once", () => {
  it("creates one session and one command", async () => {
    const headers = { "idempotency-key": "once" };
    const sessions = await Promise.all(
      cluster.all.map((daemon) => ask([daemon], "POST", "/v1/sessions", {}, headers)),
    );
    expect(new Set(sessions.map(({ id }) => id)).size).toBe(1);
    const path = `/v1/sessions/${String(sessions[0]?.["id"])}`;
    const body = { cmd: "echo ran >> /workspace/log; echo out" };
    const commands = await Promise.all(
      cluster.all.map((daemon) => ask([daemon], "POST", `${path}/exec`, body, headers)),
    );
    expect(new Set(commands.map((answer) => answer["exec_id"])).size).toBe(1);
    for (const answer of commands) expect(answer).toMatchObject({ exit_code: 0, output: "out\n" });
    const log = await ask(cluster.all, "POST", `${path}/exec`, { cmd: "cat /workspace/log" });
    expect(log["output"]).toBe("ran\n");
    expect(await cluster.query("SELECT id FROM sessions")).toHaveLength(1);
    await ask(cluster.all, "DELETE", path);
  });
});

describe("a key that one daemon revoked", () => {
  it("is refused by the others within two seconds", async () => {
    const [first, second, third] = cluster.all;
    const made = await first.call<{ id: string; key: string }>("POST", "/v1/keys", {
      name: "shared",
      owner: "default",
    });
    const { id, key } = made.body;
    const status = async (daemon: TestDaemon): Promise<number> =>
      await fetch(`${daemon.url}/v1/version`, { headers: { authorization: `Bearer ${key}` } }).then(
        (answer) => answer.status,
        () => 0,
      );
    for (const daemon of [second, third])
      await vi.waitUntil(async () => (await status(daemon)) === 200, LONG);
    expect((await first.call("DELETE", `/v1/keys/${id}`)).status).toBe(200);
    const revokedAtMs = performance.now();
    for (const daemon of [second, third]) {
      let acceptedAtMs = revokedAtMs;
      await vi.waitUntil(async () => {
        const askedAtMs = performance.now();
        const answer = await status(daemon);
        if (answer === 200) acceptedAtMs = askedAtMs;
        return answer === 401;
      }, LONG);
      expect(acceptedAtMs - revokedAtMs).toBeLessThan(REVOKED_MS);
    }
  });
});

describe("a daemon that is stopped while the engine has its request", () => {
  it("destroys no workspace that another daemon has created since", async () => {
    const [first, second] = cluster.all;
    const file = "/v1/workspaces/late/fs/file?path=a";
    const put = async (daemon: TestDaemon, body: string): Promise<number> =>
      (await daemon.fetch(file, { method: "PUT", body })).status;
    expect(await put(first, "old")).toBe(200);
    const late = cluster.engine.hold(/^DELETE .*\/volumes\//u);
    const removed = first.call("DELETE", "/v1/workspaces/late").catch(() => undefined);
    await late.arrived;
    // No other daemon opens it while it is being destroyed.
    expect(await put(second, "early")).toBe(409);
    await whileStopped(first, late, async () => {
      const path = await vi.waitUntil(async () => {
        const { status, body } = await second.call("POST", "/v1/sessions", {
          workspace_id: "late",
        });
        return status === 201 && `/v1/sessions/${String(body["id"])}`;
      }, LONG);
      await ask([second], "POST", `${path}/exec`, { cmd: "printf new > /workspace/a" });
      // The engine refuses to remove a volume only while a sandbox uses it.
      await ask([second], "DELETE", path);
    });
    await removed;
    await ask([first], "GET", "/v1/workspaces");
    expect(await (await second.fetch(file)).text()).toBe("new");
    const { workspaces } = await ask([second], "GET", "/v1/workspaces");
    expect(workspaces).toHaveLength(1);
    expect((await second.call("DELETE", "/v1/workspaces/late")).status).toBe(200);
  });

  it("does not move an image's name back to its own commit", async () => {
    const [first, second] = cluster.all;
    const id = await first.open({ profile: "root" });
    const path = `/v1/sessions/${id}`;
    const reference = "committed-late:1";
    await first.exec(id, "echo old > /state");
    const late = cluster.engine.hold(/^POST .*sandkasten-commit.*\/tag/u);
    const committed = first.call("POST", `${path}/commit`, { reference }).catch(() => undefined);
    await late.arrived;
    await whileStopped(first, late, async () => {
      await ask([second], "POST", `${path}/exec`, { cmd: "echo new > /state" });
      const image = await ask([second], "POST", `${path}/commit`, { reference });
      expect(image).toMatchObject({ reference });
    });
    expect((await committed)?.status).not.toBe(200);
    const next = await ask([second], "POST", "/v1/sessions", { image: reference });
    const seen = await ask([second], "POST", `/v1/sessions/${String(next["id"])}/exec`, {
      cmd: "cat /state",
    });
    expect(seen["output"]).toBe("new\n");
    for (const one of [id, String(next["id"])])
      await ask([second], "DELETE", `/v1/sessions/${one}`);
    await ask([second], "DELETE", `/v1/images?reference=${reference}`);
  });
});
