/** Threat: interrupted creation. What clients see of a launcher that is killed or frozen. */
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, expect, test } from "vitest";
import { isGone, launcherServersOf } from "../support/launcher-servers.ts";
import { TestDaemon } from "../support/test-daemon.ts";

const MAX_STRIKES = 20;

let daemon: TestDaemon;
let living: string;
beforeAll(async () => {
  daemon = await TestDaemon.start();
  living = await daemon.open();
});
afterAll(() => daemon[Symbol.asyncDispose]());

async function theServer(): Promise<number> {
  const [server] = await launcherServersOf(daemon.pid);
  if (server === undefined) throw new Error("no launcher serves the daemon");
  return server;
}

async function readiness(): Promise<unknown> {
  const { status, body } = await daemon.call<{ error_code?: string }>("GET", "/readyz");
  return body.error_code ?? status;
}

test("a create whose launcher is killed returns 503, can be repeated, and leaves nothing", async () => {
  let struck: Awaited<ReturnType<typeof daemon.call>> | undefined;
  for (let strike = 0; struck === undefined && strike < MAX_STRIKES; strike++) {
    const created = daemon.call("POST", "/v1/sessions", {}, { "idempotency-key": `k${strike}` });
    await sleep(strike + 1);
    process.kill(await theServer(), "SIGKILL");
    const answer = await created;
    if (answer.status !== 201) struck = answer;
    else await daemon.call("DELETE", `/v1/sessions/${String(answer.body["id"])}`);
    // The next request starts it again.
    expect(await readiness()).toBe(200);
    if (struck === undefined) continue;
    const again = await daemon.call(
      "POST",
      "/v1/sessions",
      {},
      { "idempotency-key": `k${strike}` },
    );
    expect(again.status).toBe(201);
    await daemon.call("DELETE", `/v1/sessions/${String(again.body["id"])}`);
  }
  expect(struck).toMatchObject({ status: 503, body: { error_code: "BACKEND_BUSY" } });
  expect(struck?.headers.get("retry-after")).toBe("1");
  expect(await daemon.exec(living, "echo unharmed")).toMatchObject({ stdout: "unharmed\n" });
});

test("a frozen launcher is reported by /readyz and replaced, and sessions continue meanwhile", async () => {
  expect(await readiness()).toBe(200);
  const frozen = await theServer();
  process.kill(frozen, "SIGSTOP");
  expect(await readiness()).toBe("BACKEND_BUSY");
  const created = daemon.call("POST", "/v1/sessions", {});
  expect(await daemon.exec(living, "echo unharmed")).toMatchObject({ stdout: "unharmed\n" });
  expect(await daemon.call("GET", `/v1/sessions/${living}`)).toMatchObject({
    body: { status: "running" },
  });
  expect(await created).toMatchObject({ status: 503, body: { error_code: "BACKEND_BUSY" } });
  expect(await isGone(frozen)).toBe(true);
  expect(await readiness()).toBe(200);
  const id = await daemon.open();
  expect(await theServer()).not.toBe(frozen);
  expect(await daemon.exec(id, "echo new")).toMatchObject({ stdout: "new\n" });
});
