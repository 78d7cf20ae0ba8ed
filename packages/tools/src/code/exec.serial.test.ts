/** `sandbox_open` and `sandbox_exec` in real sandboxes. */
import { SandboxClient } from "@sandkasten/sdk";
import { afterAll, beforeAll, expect, it } from "vitest";
import { TestDaemon } from "../../../../tests/support/test-daemon.ts";
import { parseSandboxSettings, SandboxScope, sandboxTools } from "../index.ts";
import type { ExecOutput } from "./exec.ts";
import type { OpenOutput } from "./open.ts";

let daemon: TestDaemon;
let client: SandboxClient;
beforeAll(async () => {
  daemon = await TestDaemon.start();
  client = new SandboxClient({ baseUrl: daemon.url, apiKey: daemon.apiKey });
});
afterAll(async () => {
  await daemon[Symbol.asyncDispose]();
});

it("opens a sandbox, runs commands in its shell and destroys it with the scope", async () => {
  const scope = new SandboxScope({ client, namespace: "agent", id: "run_1" });
  const [open, exec] = sandboxTools(parseSandboxSettings({ mode: "code" }), {
    client,
    agentScope: scope,
  });
  const opened = (await open?.run({})) as OpenOutput;
  expect(opened).toMatchObject({ created: true, status: "ready", workdir: "/workspace" });
  await exec?.run({ cmd: "cd /tmp && export GREETING=hello" });
  const result = (await exec?.run({ command: 'echo "$GREETING from $PWD"' })) as ExecOutput;
  expect(result).toMatchObject({ exit_code: 0, stdout: "hello from /tmp\n", cwd: "/tmp" });
  expect(await open?.run({})).toMatchObject({ created: false, sandbox_id: opened.sandbox_id });
  await scope.close();
  const { status } = await client.getSession(opened.sandbox_id);
  expect(status).toBe("destroyed");
});
