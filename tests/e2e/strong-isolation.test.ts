/** Sessions with strong isolation over HTTP, on a real daemon whose default runtime is crun. */
import { release } from "node:os";
import { expect, test } from "vitest";
import { RUNTIME_DIR, whyNoGvisor } from "../support/gvisor.ts";
import { TestDaemon } from "../support/test-daemon.ts";

interface Isolation {
  readonly tier: string;
  readonly runtime: string;
  readonly facts: readonly { name: string; enforced: boolean }[];
}

test("a session that requests strong isolation gets it, and another one does not", async (context) => {
  context.skip(whyNoGvisor() !== undefined, whyNoGvisor());
  await using daemon = await TestDaemon.start({ settings: { RUNTIME_DIR } });
  const created = await daemon.call<{ id: string }>("POST", "/v1/sessions", {
    isolation: "strong",
  });
  expect(created).toMatchObject({ status: 201, body: { isolation_level: "strong" } });
  const { id } = created.body;
  expect(await daemon.exec(id, "cd /tmp; uname -r")).toMatchObject({
    exit_code: 0,
    stdout: expect.stringContaining("gvisor"),
  });
  expect(await daemon.exec(id, "pwd")).toMatchObject({ stdout: "/tmp\n" });
  const { body: report } = await daemon.call<Isolation>("GET", `/v1/sessions/${id}/isolation`);
  expect(report).toMatchObject({ tier: "strong", runtime: expect.stringMatching(/^runsc \d+/u) });
  expect(report.facts.filter(({ enforced }) => !enforced)).toEqual([]);

  const usual = await daemon.open();
  expect((await daemon.call("GET", `/v1/sessions/${usual}`)).body).toMatchObject({
    isolation_level: "standard",
  });
  expect(await daemon.exec(usual, "uname -r")).toMatchObject({ stdout: `${release()}\n` });

  // The next daemon finds the sandbox again, with its shell's state.
  await daemon.kill();
  await daemon.run();
  expect((await daemon.call("GET", `/v1/sessions/${id}`)).body).toMatchObject({
    status: "running",
    isolation_level: "strong",
  });
  expect(await daemon.exec(id, "pwd")).toMatchObject({ stdout: "/tmp\n" });
  expect((await daemon.call("DELETE", `/v1/sessions/${id}`)).status).toBe(200);
});

test("it is refused, and never downgraded, if the administrator forbids it", async () => {
  await using daemon = await TestDaemon.start({
    settings: { RUNTIME_DIR, ALLOW_STRONG_ISOLATION: "false" },
  });
  expect(await daemon.call("POST", "/v1/sessions", { isolation: "strong" })).toMatchObject({
    status: 403,
    body: { error_code: "PERMISSION_DENIED", message: expect.stringContaining("strong") },
  });
  expect((await daemon.call("GET", "/v1/sessions")).body).toEqual([]);
  expect((await daemon.call("POST", "/v1/sessions", {})).status).toBe(201);
});
