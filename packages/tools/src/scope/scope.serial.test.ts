/** A run's sandboxes: shared, kept alive, released and cleaned up, with a real daemon. */
import { setTimeout as sleep } from "node:timers/promises";
import { SandboxClient } from "@sandkasten/sdk";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { ToolFixture } from "../testing/tool-fixture.ts";
import { SandboxScope } from "./sandbox-scope.ts";

let fixture: ToolFixture;
beforeAll(async () => {
  fixture = await ToolFixture.start();
});
afterAll(async () => {
  await fixture[Symbol.asyncDispose]();
});

const CODE = { mode: "code" };

/** Waits until the condition holds; the test's own timeout is the limit. */
async function until(condition: () => Promise<boolean>): Promise<void> {
  while (!(await condition())) await sleep(100);
}

/** A client whose requests are recorded, and can be changed. */
function watchedClient(watch: (method: string, path: string) => Response | undefined) {
  const { daemon } = fixture;
  return new SandboxClient({
    baseUrl: daemon.url,
    apiKey: daemon.apiKey,
    maxRetries: 0,
    fetch: async (target, init) => {
      const { pathname } = new URL(new Request(target).url);
      return watch(init?.method ?? "GET", pathname) ?? (await fetch(target, init));
    },
  });
}

describe("agents of a workflow run", () => {
  it("share one sandbox by default: the writer creates, the tester runs, the debugger reads", async () => {
    const workflowScope = fixture.scope("wf_share", "workflow");
    const writer = fixture.agent(CODE, { workflowScope });
    const tester = fixture.agent({ ...CODE, session: "workflow" }, { workflowScope });
    const debuggers = fixture.agent({ ...CODE, session: "default" }, { workflowScope });
    const opened = await writer.call("sandbox_open");
    expect(opened).toMatchObject({
      created: true,
      session_key: "workflow:wf_share:default",
      session_alias: "workflow_wf_share_sandbox",
    });
    await writer.call("sandbox_fs_write", { path: "check.sh", contents: "echo failed > result\n" });
    expect(await tester.call("sandbox_open")).toMatchObject({
      created: false,
      sandbox_id: opened.sandbox_id,
    });
    await tester.call("sandbox_exec", { cmd: ["sh", "check.sh"] });
    // By each name of the sandbox.
    for (const sandbox_id of [undefined, "workflow_wf_share_sandbox", "wf_share_sandbox"])
      expect(await debuggers.call("sandbox_fs_read", { sandbox_id, path: "result" })).toMatchObject(
        {
          contents: "failed\n",
        },
      );
    await workflowScope.close();
    expect(await fixture.statusOf(opened.sandbox_id)).toBe("destroyed");
  });

  it("get separate sandboxes if isolated, and additional ones by name", async () => {
    const workflowScope = fixture.scope("wf_named", "workflow");
    const shared = fixture.agent(CODE, { workflowScope });
    const isolated = fixture.agent({ ...CODE, session: "isolated" }, { workflowScope });
    const alsoIsolated = fixture.agent({ ...CODE, session: "agent" }, { workflowScope });
    const build = fixture.agent({ ...CODE, session: "build" }, { workflowScope });
    const alsoBuild = fixture.agent({ ...CODE, session: "build" }, { workflowScope });
    const keys = [];
    for (const agent of [shared, isolated, alsoIsolated, build, alsoBuild])
      keys.push((await agent.call("sandbox_open")).session_key);
    expect(keys[0]).toBe("workflow:wf_named:default");
    expect(keys[1]).toMatch(/^agent:run-.*:default$/);
    expect(keys[2]).toMatch(/^agent:run-.*:default$/);
    expect(keys[2]).not.toBe(keys[1]);
    expect(keys.slice(3)).toEqual(["workflow:wf_named:build", "workflow:wf_named:build"]);
  });

  it("create one sandbox if all start at once, in separate processes", async () => {
    const agents = Array.from({ length: 6 }, () =>
      fixture.agent(CODE, { workflowScope: fixture.scope("wf_race", "workflow") }),
    );
    const opened = await Promise.all(agents.map((agent) => agent.call("sandbox_open")));
    expect(new Set(opened.map(({ sandbox_id }) => sandbox_id)).size).toBe(1);
    expect(opened.filter(({ created }) => created)).toHaveLength(1);
  });
});

describe("a scope", () => {
  it("can be continued by another process, and closed by it with all sandboxes", async () => {
    const first = fixture.scope("resumed", "workflow");
    const before = fixture.agent(CODE, { workflowScope: first });
    const { sandbox_id } = await before.call("sandbox_open");
    const second_id = (await before.call("sandbox_open", { session_key: "second" })).sandbox_id;
    await before.call("sandbox_fs_write", { path: "kept", contents: "yes" });
    first.detach();
    await expect(before.call("sandbox_open")).rejects.toThrow("The run has ended");

    const second = fixture.scope("resumed", "workflow");
    const after = fixture.agent(CODE, { workflowScope: second });
    expect((await after.call("sandbox_fs_read", { sandbox_id, path: "kept" })).contents).toBe(
      "yes",
    );
    expect(await after.call("sandbox_open")).toMatchObject({ sandbox_id, created: false });
    await second.close();
    expect(await fixture.statusOf(sandbox_id)).toBe("destroyed");
    expect(await fixture.statusOf(second_id)).toBe("destroyed");
  });

  it("gives a second opener the sandbox only after the first has prepared it", async () => {
    const scope = fixture.scope("prepared");
    const open = async (prepare?: () => Promise<void>) =>
      await scope.open({
        name: "default",
        create: {},
        isImageGiven: false,
        idleTimeoutSeconds: 60,
        maxLifetimeSeconds: 600,
        prepare,
      });
    let isPrepared = false;
    const first = open(async () => {
      await sleep(200);
      isPrepared = true;
    });
    const second = await open();
    expect(isPrepared).toBe(true);
    expect(second.info.id).toBe((await first).info.id);
  });

  it("destroys the sandbox that is being opened while it is closed", async () => {
    const scope = fixture.scope("closing");
    const agent = fixture.agent(CODE, { agentScope: scope });
    const opening = agent.call("sandbox_open");
    await scope.close();
    const { sandbox_id } = await opening;
    expect(await fixture.statusOf(sandbox_id)).toBe("destroyed");
  });

  it("reports a sandbox that cannot be destroyed and continues with the rest", async () => {
    let refused = "";
    const client = watchedClient((method, path) =>
      method === "DELETE" && path.endsWith(refused)
        ? Response.json({ error_code: "INTERNAL_ERROR", message: "not now" }, { status: 500 })
        : undefined,
    );
    const failures: string[] = [];
    const scope = new SandboxScope({
      client,
      namespace: "workflow",
      id: "partly",
      onCleanupFailure: (key, error) => failures.push(`${key}: ${String(error)}`),
    });
    const agent = fixture.agent(CODE, { client, workflowScope: scope });
    const ids = [];
    for (const session_key of ["one", "two", "three"])
      ids.push((await agent.call("sandbox_open", { session_key })).sandbox_id);
    refused = ids[1] ?? "";
    await scope.close();
    expect(failures).toEqual(["workflow:partly:two: SandboxError: not now"]);
    expect(await Promise.all(ids.map((id) => fixture.statusOf(id)))).toEqual([
      "destroyed",
      "running",
      "destroyed",
    ]);
    refused = "nothing";
    await fixture.scope("partly", "workflow").close();
  });

  it("emits a process warning if there is no handler", async () => {
    const client = watchedClient((method) =>
      method === "DELETE"
        ? Response.json({ error_code: "INTERNAL_ERROR", message: "not now" }, { status: 500 })
        : undefined,
    );
    const scope = new SandboxScope({ client, namespace: "agent", id: "warns" });
    await fixture.agent(CODE, { client, agentScope: scope }).call("sandbox_open");
    const warned = new Promise<Error>((resolve) => process.once("warning", resolve));
    await scope.close();
    expect((await warned).message).toBe(
      "failed to cleanup session agent:warns:default: SandboxError: not now",
    );
    await fixture.scope("warns").close();
  });

  it("leaves sandboxes to expire if they must be retained", async () => {
    const scope = fixture.scope("retained", "workflow");
    const agent = fixture.agent(CODE, { workflowScope: scope });
    const { sandbox_id } = await agent.call("sandbox_open");
    await scope.close({ retainSeconds: 3600 });
    const session = await fixture.client.getSession(sandbox_id);
    expect(session).toMatchObject({ status: "running", ttlSeconds: 3600 });
    await session.destroy();
  });

  it("refuses an id that could be another run's", () => {
    const { client } = fixture;
    for (const id of ["", "a:b", "a/b", "x".repeat(129), "a b"])
      expect(() => new SandboxScope({ client, namespace: "agent", id })).toThrow(TypeError);
  });
});

describe("the lease", () => {
  it("is renewed while the scope exists, and ends with it", async () => {
    const scope = fixture.scope("lease", "agent", 2);
    const agent = fixture.agent(CODE, { agentScope: scope });
    const { sandbox_id } = await agent.call("sandbox_open");
    const session = await fixture.client.getSession(sandbox_id);
    expect(session.ttlSeconds).toBe(2);
    const firstEnd = Date.parse(session.expiresAt);
    await until(async () => Date.parse((await session.refresh()).expiresAt) > firstEnd + 2000);
    expect(session.status).toBe("running");
    // As if its process had died: nothing is destroyed, and nothing renews it.
    scope.detach();
    await until(async () => (await session.refresh()).status === "expired");
  });

  it("does not outlive the agent's idle timeout, and use extends it again", async () => {
    const scope = fixture.scope("idle", "agent", 2);
    const agent = fixture.agent({ ...CODE, limits: { timeout_seconds: 3 } }, { agentScope: scope });
    const { sandbox_id } = await agent.call("sandbox_open");
    const session = await fixture.client.getSession(sandbox_id);
    // The remaining idle time is shorter than a lease, so the lease is shortened to it.
    await until(async () => (await session.refresh()).ttlSeconds === 1);
    await agent.call("sandbox_exec", { cmd: "true" });
    expect((await session.refresh()).ttlSeconds).toBe(2);
    await until(async () => (await session.refresh()).status === "expired");
    await expect(agent.call("sandbox_exec", { cmd: "true" })).rejects.toMatchObject({
      code: "SANDBOX_NOT_FOUND",
      message: expect.stringMatching(/its files are gone.*sandbox_open/) as string,
    });
    expect(await agent.call("sandbox_open")).toMatchObject({ created: true });
  });

  it("ends with the maximum lifetime, even if in use", async () => {
    const agent = fixture.agent(CODE, {
      agentScope: fixture.scope("lifetime", "agent", 240),
      policy: { maxLifetimeSeconds: 1 },
    });
    const { sandbox_id } = await agent.call("sandbox_open");
    await until(
      async () =>
        await agent.call("sandbox_exec", { sandbox_id, cmd: "true" }).then(
          () => false,
          ({ code }: { code: string }) => code === "SANDBOX_NOT_FOUND",
        ),
    );
    expect(await fixture.statusOf(sandbox_id)).toBe("destroyed");
  });

  it("starts nothing after the maximum lifetime, even while a command still runs", async () => {
    const agent = fixture.agent(CODE, {
      agentScope: fixture.scope("overlap", "agent", 240),
      policy: { maxLifetimeSeconds: 2 },
    });
    await agent.call("sandbox_open");
    const last = agent.call("sandbox_exec", { cmd: ["sh", "-c", "sleep 5; echo whole"] });
    await sleep(3000);
    await expect(agent.call("sandbox_exec", { cmd: ["true"] })).rejects.toMatchObject({
      code: "SANDBOX_NOT_FOUND",
    });
    expect(await last).toMatchObject({ exit_code: 0, stdout: "whole\n" });
  });

  it("is limited by the maximum lifetime in a process that only knows the sandbox's id", async () => {
    const first = fixture.agent(CODE, { agentScope: fixture.scope("known-id") });
    const { sandbox_id } = await first.call("sandbox_open");
    first.scope.detach();
    const later = fixture.agent(CODE, {
      agentScope: fixture.scope("known-id"),
      policy: { maxLifetimeSeconds: 1 },
    });
    await sleep(1100);
    await expect(later.call("sandbox_exec", { sandbox_id, cmd: "true" })).rejects.toMatchObject({
      code: "SANDBOX_NOT_FOUND",
    });
    expect(await fixture.statusOf(sandbox_id)).toBe("destroyed");
  });
});
