/** Deep Agents' real package on a real sandbox. */
import type { Session } from "@sandkasten/sdk";
import { CompositeBackend, createDeepAgent, StateBackend } from "deepagents";
import { afterAll, beforeAll, expect, test } from "vitest";
import { DeepAgentsSandbox } from "../deepagents.ts";
import { expectShort, type Fixture, HUGE, ScriptedModel } from "./adapter-fixture.ts";
import { chatModel } from "./langchain-suite.ts";

export function deepagentsSuite(fixture: Fixture): void {
  let session: Session;
  let sandbox: DeepAgentsSandbox;
  beforeAll(async () => {
    session = await fixture().client.createSession({ image: "python" });
    sandbox = new DeepAgentsSandbox(session);
  });
  afterAll(async () => {
    await session.destroy();
  });

  test("executes commands, in order on both streams, within a timeout", async () => {
    expect(sandbox.id).toBe(session.id);
    expect(await sandbox.execute("echo out; echo err >&2; exit 3")).toEqual({
      output: expect.stringMatching(/out\n/) as string,
      exitCode: 3,
      truncated: false,
    });
    const late = await sandbox.execute("echo begun; sleep 1000", { timeout: 0.5 });
    expect(late).toMatchObject({ output: "begun\n", exitCode: 124 });
    const long = await sandbox.execute("head -c 20000000 /dev/zero | tr '\\0' x");
    expect(long).toMatchObject({ exitCode: 0, truncated: true });
  });

  // Not through an agent's model: Deep Agents would summarize a conversation with such a long call.
  test("returns an error for a command that is too long, and continues", async () => {
    for (const command of [HUGE, HUGE.slice(0, 2_000_000)]) {
      const { output, exitCode } = await sandbox.execute(command);
      expect(exitCode).toBe(126);
      expectShort(output, /The command is too long|The command was not run/);
    }
    expect(await sandbox.execute("echo on")).toMatchObject({ output: "on\n", exitCode: 0 });
  });

  test("uploads and downloads files, each with a separate result", async () => {
    const bytes = Uint8Array.of(0, 255, 10);
    await sandbox.uploadFiles([["/workspace/deep/a.bin", bytes]]);
    expect(
      await sandbox.uploadFiles([
        ["/workspace/deep/a.bin", bytes],
        ["/workspace", bytes],
        ["/workspace/deep/a.bin/below", bytes],
        ["/usr/not-ours", bytes],
      ]),
    ).toEqual([
      { path: "/workspace/deep/a.bin", error: null },
      { path: "/workspace", error: "is_directory" },
      { path: "/workspace/deep/a.bin/below", error: "invalid_path" },
      { path: "/usr/not-ours", error: "permission_denied" },
    ]);
    const [whole, missing, directory] = await sandbox.downloadFiles([
      "/workspace/deep/a.bin",
      "/workspace/none",
      "/workspace/deep",
    ]);
    expect([...(whole?.content ?? [])]).toEqual([...bytes]);
    expect([missing?.error, directory?.error]).toEqual(["file_not_found", "is_directory"]);
  });

  test("supports what Deep Agents builds on commands: list, read, search, edit, delete", async () => {
    await sandbox.write("/workspace/src/a.py", "one = 1\ntwo = 2\n");
    await sandbox.write("/workspace/src/b.txt", "two\n");
    const listed = await sandbox.ls("/workspace/src");
    expect(listed.files?.map(({ path }) => path).toSorted()).toEqual([
      "/workspace/src/a.py",
      "/workspace/src/b.txt",
    ]);
    expect((await sandbox.read("/workspace/src/a.py", 1, 1)).content).toContain("two = 2");
    const found = await sandbox.grep("two", "/workspace/src", "*.py");
    expect(found.matches).toMatchObject([{ path: "/workspace/src/a.py", line: 2 }]);
    const globbed = await sandbox.glob("**/*.py", "/workspace");
    expect(globbed.files).toHaveLength(1);
    await sandbox.edit("/workspace/src/a.py", "one = 1", "one = 11");
    expect((await sandbox.readRaw("/workspace/src/a.py")).data?.content).toContain("one = 11");
    expect((await sandbox.delete("/workspace/src")).error).toBeUndefined();
    expect((await sandbox.ls("/workspace/src")).files ?? []).toEqual([]);
  });

  test("is the backend of an agent, whose model is told of its mistakes", async () => {
    await using model = await ScriptedModel.start([
      { name: "teleport", input: {} },
      { name: "execute", input: { command: 42 } },
      { name: "read_file", input: { file_path: "/workspace/none" } },
      { name: "write_file", input: { file_path: "/workspace/hi.py", content: "print(6 * 7)" } },
      { name: "execute", input: { command: "python3 /workspace/hi.py" } },
    ]);
    const agent = createDeepAgent({ model: chatModel(model), backend: sandbox });
    await agent.invoke({ messages: [{ role: "user", content: "Work." }] }, { recursionLimit: 60 });
    const [unknown, wrong, missing, , ran] = model.toolOutputs;
    expect(unknown).toContain("teleport is not a valid tool");
    expect(wrong).toMatch(/expected string|did not match expected schema/);
    expect(missing).toContain("not found");
    expect(ran).toContain("42");
  });

  test("keeps results that are too long for a model where the guide stores them", async () => {
    await using model = await ScriptedModel.start([
      { name: "execute", input: { command: "seq 100000" } },
      { name: "ls", input: { path: "/large_tool_results" } },
    ]);
    const agent = createDeepAgent({
      model: chatModel(model),
      backend: new CompositeBackend(sandbox, { "/large_tool_results/": new StateBackend() }),
    });
    await agent.invoke({ messages: [{ role: "user", content: "Work." }] }, { recursionLimit: 60 });
    const [long, listed] = model.toolOutputs;
    expect(long).toContain("/large_tool_results/");
    expect(long).not.toContain("could not be saved");
    expect(listed).toMatch(/\/large_tool_results\/.+\.txt/);
  });
}
