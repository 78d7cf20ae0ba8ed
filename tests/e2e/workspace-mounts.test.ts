/** Additional workspaces of a session, over HTTP and in real sandboxes. */
import { afterAll, beforeAll, expect, test } from "vitest";
import { TestDaemon } from "../support/test-daemon.ts";

let daemon: TestDaemon;
beforeAll(async () => {
  daemon = await TestDaemon.start();
});
afterAll(() => daemon[Symbol.asyncDispose]());

test("a workspace is at its path, shared by sessions, and read-only if requested", async () => {
  const writer = await daemon.open({
    workspace_id: "main",
    workspaces: [{ id: "data", path: "/mnt/data" }],
  });
  const reader = await daemon.open({
    workspaces: [{ id: "data", path: "/srv/seen", read_only: true }],
  });
  expect(await daemon.exec(writer, "echo shared > /mnt/data/file; pwd")).toMatchObject({
    stdout: "/workspace\n",
    exit_code: 0,
  });
  expect(await daemon.exec(reader, "cat /srv/seen/file; touch /srv/seen/other")).toMatchObject({
    stdout: "shared\n",
    stderr: expect.stringContaining("Read-only file system"),
  });
  expect((await daemon.call("GET", `/v1/sessions/${reader}`)).body).toMatchObject({
    workspaces: [{ id: "data", path: "/srv/seen", read_only: true }],
  });
  // File calls on the workspace itself see the same files, and it cannot be removed while it is in
  // use.
  const file = await daemon.fetch("/v1/workspaces/data/fs/file?path=/workspace/file");
  expect([file.status, await file.text()]).toEqual([200, "shared\n"]);
  await daemon.kill();
  await daemon.run();
  const data = (await daemon.call("GET", "/v1/workspaces/data")).body;
  expect(new Set(data["sessions"] as string[])).toEqual(new Set([writer, reader]));
  expect(await daemon.call("DELETE", "/v1/workspaces/data")).toMatchObject({
    status: 409,
    body: { details: { session_id: expect.any(String) } },
  });
  for (const id of [writer, reader]) await daemon.call("DELETE", `/v1/sessions/${id}`);
  const later = await daemon.open({ workspaces: [{ id: "data", path: "/mnt" }] });
  expect(await daemon.exec(later, "cat /mnt/file")).toMatchObject({ stdout: "shared\n" });
  await daemon.call("DELETE", `/v1/sessions/${later}`);
});

test.each(["/proc", "/etc/x", "/workspace/in", "relative", "/mnt/../etc"])(
  "a workspace cannot be at %s",
  async (path) => {
    const answer = await daemon.call("POST", "/v1/sessions", {
      workspaces: [{ id: "data", path }],
    });
    expect(answer).toMatchObject({ status: 400, body: { error_code: "INVALID_REQUEST" } });
  },
);
