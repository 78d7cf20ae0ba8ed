/** Which sandbox an agent gets, and what closing it does. */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type TestAgent, ToolFixture } from "../testing/tool-fixture.ts";

let fixture: ToolFixture;
let agent: TestAgent;
beforeAll(async () => {
  fixture = await ToolFixture.start();
  agent = fixture.agent({ mode: "code" });
});
afterAll(async () => {
  await fixture[Symbol.asyncDispose]();
});

describe("sandbox_open", () => {
  it("creates the run's sandbox once and resumes it afterwards", async () => {
    const one = fixture.agent({ mode: "code", runtime: "python" });
    const opened = await one.call("sandbox_open");
    expect(opened).toMatchObject({
      session_id: opened.sandbox_id,
      created: true,
      status: "ready",
      workdir: "/workspace",
      network: false,
      requested_image: "python",
    });
    expect(opened.session_key).toMatch(/^agent:run-.*:default$/);
    expect(opened.session_alias).toBe(
      `${opened.session_key.replace(":default", "").replace(":", "_")}_sandbox`,
    );
    const again = await one.call("sandbox_open", { image: "python:3.11-slim" });
    expect(again).toMatchObject({ sandbox_id: opened.sandbox_id, created: false });
  });

  it("creates one sandbox for ten concurrent calls", async () => {
    const one = fixture.agent({ mode: "code" });
    const all = await Promise.all(Array.from({ length: 10 }, () => one.call("sandbox_open")));
    expect(new Set(all.map(({ sandbox_id }) => sandbox_id)).size).toBe(1);
    expect(all.filter(({ created }) => created)).toHaveLength(1);
  });

  it("creates another sandbox for a session_key", async () => {
    const [first, second] = [
      await agent.call("sandbox_open"),
      await agent.call("sandbox_open", { session_key: "second" }),
    ];
    expect(second.sandbox_id).not.toBe(first.sandbox_id);
    await agent.call("sandbox_fs_write", {
      sandbox_id: second.sandbox_id,
      path: "only-here",
      text: "x",
    });
    await expect(agent.call("sandbox_fs_read", { path: "only-here" })).rejects.toMatchObject({
      code: "FILE_NOT_FOUND",
    });
  });

  it("says which stage failed if the image does not exist", async () => {
    const one = fixture.agent({ mode: "code", image: "no-such-image:1" });
    await expect(one.call("sandbox_open")).rejects.toMatchObject({
      code: "INVALID_INPUT",
      message: expect.stringMatching(
        /^failed to create sandbox session: .*no-such-image/,
      ) as string,
    });
  });
});

describe("sandbox_close", () => {
  it("destroys the sandbox; the next command gets a new one", async () => {
    const one = fixture.agent({ mode: "code" });
    const { sandbox_id } = await one.call("sandbox_open");
    await one.call("sandbox_exec", { cmd: "touch kept" });
    expect(await one.call("sandbox_close")).toEqual({
      ok: true,
      closed: true,
      sandbox_id,
      session_id: sandbox_id,
      destroyed: true,
    });
    expect(await fixture.statusOf(sandbox_id)).toBe("destroyed");
    const next = await one.call("sandbox_exec", { cmd: "ls" });
    expect(next).toMatchObject({ stdout: "" });
    expect(next.sandbox_id).not.toBe(sandbox_id);
  });

  it("leaves the files in the requested place, and says what happens to them", async () => {
    const one = fixture.agent({ mode: "code" });
    await one.call("sandbox_exec", { cmd: "touch kept" });
    const closed = await one.call("sandbox_close", { delete_workspace: false });
    expect(closed).toMatchObject({ closed: true, destroyed: false });
    expect(closed.note).toMatch(/stay until the run ends/);
    expect((await one.call("sandbox_exec", { cmd: "ls" })).stdout).toBe("kept\n");
  });

  it("does not take the sandbox of a workflow from the other steps, unless requested", async () => {
    const workflowScope = fixture.scope("wf-close", "workflow");
    const writer = fixture.agent({ mode: "code" }, { workflowScope });
    const reader = fixture.agent({ mode: "code" }, { workflowScope });
    await writer.call("sandbox_fs_write", { path: "note", contents: "for you" });
    expect(await writer.call("sandbox_close")).toMatchObject({ closed: true, destroyed: false });
    expect((await reader.call("sandbox_fs_read", { path: "note" })).contents).toBe("for you");
    const ended = await reader.call("sandbox_close", { delete_workspace: true });
    expect(ended).toMatchObject({ destroyed: true });
  });

  it("does nothing if no sandbox is open", async () => {
    const one = fixture.agent({ mode: "code" });
    expect(await one.call("sandbox_close")).toMatchObject({ ok: true, destroyed: false });
  });
});
