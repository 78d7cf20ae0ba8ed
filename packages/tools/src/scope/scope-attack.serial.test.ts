/** Agents that try to reach the sandboxes of other runs. */
import { SandboxClient } from "@sandkasten/sdk";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { DirectoryFileStore } from "../file-store.ts";
import { type TestAgent, ToolFixture } from "../testing/tool-fixture.ts";
import { ToolError } from "../tool-error.ts";
import { SandboxScope } from "./sandbox-scope.ts";

const UNKNOWN = "ses_000000000000000000000000";

let fixture: ToolFixture;
let victim: TestAgent;
let attacker: TestAgent;
/** Every name of the victim's sandboxes. */
let victims: readonly string[];
let attackersScope: SandboxScope;
let requests: string[] = [];

beforeAll(async () => {
  fixture = await ToolFixture.start();
  victim = fixture.agent({ mode: "code" }, { agentScope: fixture.scope("victim") });
  const workflowScope = fixture.scope("victims_flow", "workflow");
  const step = fixture.agent({ mode: "code" }, { workflowScope });
  const opened = [
    await victim.call("sandbox_open"),
    await victim.call("sandbox_open", { session_key: "second" }),
    await step.call("sandbox_open"),
  ];
  await victim.call("sandbox_fs_write", { path: "secret", contents: "the victim's" });
  victims = opened.flatMap(({ sandbox_id, session_key, session_alias = "" }) => [
    sandbox_id,
    session_key,
    session_alias,
    session_alias.replace(/^(?:agent|workflow)_/, ""),
  ]);
  // The same API key: the daemon itself would allow the access.
  const { url: baseUrl, apiKey } = fixture.daemon;
  const client = new SandboxClient({
    baseUrl,
    apiKey,
    fetch: async (target, init) => {
      const { pathname, search } = new URL(new Request(target).url);
      requests.push(`${init?.method} ${pathname}${search}`);
      return await fetch(target, init);
    },
  });
  attackersScope = new SandboxScope({ client, namespace: "agent", id: "attacker" });
  const fileStore = new DirectoryFileStore("/nonexistent");
  attacker = fixture.agent({ mode: "code" }, { client, agentScope: attackersScope, fileStore });
  await attacker.call("sandbox_open");
});
afterAll(async () => {
  await fixture[Symbol.asyncDispose]();
});

async function answerOf(tool: Parameters<TestAgent["call"]>[0], input: object): Promise<string> {
  try {
    return JSON.stringify(await attacker.call(tool, input));
  } catch (error) {
    if (!(error instanceof ToolError)) throw error;
    return JSON.stringify({ name: error.name, code: error.code, message: error.message });
  }
}

describe("a sandbox of another run", () => {
  it.each([
    ["sandbox_exec", { cmd: "cat secret" }],
    ["sandbox_exec", { cmd: ["true"], stream: true }],
    ["sandbox_exec_read", { exec_id: "exe_x" }],
    ["sandbox_exec_wait", { exec_id: "exe_x" }],
    ["sandbox_fs_write", { path: "planted", contents: "x" }],
    ["sandbox_fs_read", { path: "secret" }],
    ["sandbox_fs_list", {}],
    ["sandbox_fs_delete", { path: "secret" }],
    ["sandbox_close", { delete_workspace: true }],
    ["sandbox_publish_file", { path: "secret" }],
  ] as const)(
    "is answered by %s like one that does not exist, byte for byte",
    async (tool, input) => {
      for (const field of ["sandbox_id", "session_id", "id"])
        for (const id of victims) {
          const unknown = await answerOf(tool, { ...input, [field]: UNKNOWN });
          const asked = await answerOf(tool, { ...input, [field]: id });
          expect(unknown).toContain("SANDBOX_NOT_FOUND");
          expect(asked.replaceAll(id, "ID")).toBe(unknown.replaceAll(UNKNOWN, "ID"));
        }
    },
  );

  it("cannot be opened by its key", async () => {
    for (const id of victims.filter((name) => name.includes(":"))) {
      const unknown = id.replace(/:[^:]+:/, ":nobody:");
      const answer = await answerOf("sandbox_open", { session_key: id });
      expect(answer).toContain("SANDBOX_NOT_FOUND");
      expect(answer.replace(id, "ID")).toBe(
        (await answerOf("sandbox_open", { session_key: unknown })).replace(unknown, "ID"),
      );
    }
  });

  it("needs the same requests as one that does not exist", async () => {
    const requestsFor = async (sandbox_id: string): Promise<readonly string[]> => {
      requests = [];
      await answerOf("sandbox_exec", { sandbox_id, cmd: "true" });
      return requests;
    };
    const forUnknown = await requestsFor(UNKNOWN);
    expect(forUnknown).toHaveLength(1);
    for (const id of victims) expect(await requestsFor(id)).toEqual(forUnknown);
  });

  it("cannot be claimed by metadata", async () => {
    // Another holder of the API key labels a foreign session as the attacker's.
    const session = await fixture.client.createSession({
      key: "agent:labelled:default",
      metadata: { "sandkasten.scope": "agent:attacker" },
    });
    const answer = await answerOf("sandbox_exec", { sandbox_id: session.id, cmd: "true" });
    expect(answer).toContain("SANDBOX_NOT_FOUND");
    await attackersScope.close();
    expect(await fixture.statusOf(session.id)).toBe("running");
    await session.destroy();
  });

  it("is unchanged afterwards", async () => {
    const { entries } = await victim.call("sandbox_fs_list");
    expect(entries.map(({ name }) => name)).toEqual(["secret"]);
    expect((await victim.call("sandbox_fs_read", { path: "secret" })).contents).toBe(
      "the victim's",
    );
  });
});
