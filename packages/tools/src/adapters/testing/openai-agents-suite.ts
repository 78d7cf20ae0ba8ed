/** The OpenAI Agents SDK's real packages on a real sandbox. */
import { Agent, Runner, RunState, tool } from "@openai/agents-core";
import {
  dir,
  file,
  gitRepo,
  InMemoryRemoteSnapshotStore,
  Manifest,
  SandboxAgent,
} from "@openai/agents-core/sandbox";
import { MAX_VIEW_IMAGE_BYTES } from "@openai/agents-core/sandbox/internal";
import { OpenAIProvider } from "@openai/agents-openai";
import type { Files } from "@sandkasten/sdk";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { editorOf } from "../openai-editor.ts";
import { OpenAiSandboxClient, type OpenAiSandboxSession, openaiTools } from "../openai-agents.ts";
import {
  codeTools,
  expectCancelled,
  expectRecovery,
  expectShort,
  type Fixture,
  HUGE,
  ScriptedModel,
} from "./adapter-fixture.ts";

function runnerOf({ origin }: ScriptedModel): Runner {
  const modelProvider = new OpenAIProvider({ apiKey: "none", baseURL: `${origin}/v1` });
  return new Runner({
    modelProvider,
    tracingDisabled: true,
    toolNotFoundBehavior: "return_error_to_model",
  });
}

export function openaiAgentsSuite(fixture: Fixture): void {
  test("tells a model of its mistakes, and the model recovers", async () => {
    const run = async (model: ScriptedModel) => {
      const tools = openaiTools(codeTools(fixture));
      const agent = new Agent({ name: "tester", instructions: "Work.", tools });
      await runnerOf(model).run(agent, "Work.", { maxTurns: 20 });
      // A strict schema cannot have optional fields.
      const { tools: shown } = model.requests[0] as { readonly tools: readonly object[] };
      expect(shown).toContainEqual(
        expect.objectContaining({ name: "sandbox_exec", strict: false }),
      );
    };
    await expectRecovery(run, {
      unknownTool: /sandbox_teleport.*not found/i,
      malformed: /JSON/,
    });
  });

  test("cancels the command of a run that is aborted", async () => {
    await expectCancelled(fixture, async (model, tools, signal) => {
      const agent = new Agent({
        name: "tester",
        instructions: "Work.",
        tools: openaiTools(tools),
      });
      return await runnerOf(model).run(agent, "Work.", { signal });
    });
  });

  describe("sandbox client", () => {
    let client: OpenAiSandboxClient;
    let session: OpenAiSandboxSession;
    beforeAll(async () => {
      client = new OpenAiSandboxClient(fixture().client, { image: "python" });
      const entries = {
        "notes.txt": file({ content: "one\ntwo\n" }),
        src: dir({
          children: { "run.sh": file({ content: "echo $GREETING", permissions: 0o755 }) },
        }),
      };
      session = await client.create(
        new Manifest({ root: "/workspace", entries, environment: { GREETING: "hello" } }),
      );
    });
    afterAll(async () => {
      await session.close();
    });

    test("creates a sandbox with the files and variables of a manifest", async () => {
      expect(await session.running()).toBe(true);
      expect(await session.exec({ cmd: "./src/run.sh; cat notes.txt" })).toMatchObject({
        stdout: "hello\none\ntwo\n",
        exitCode: 0,
      });
      const running = async () =>
        (await fixture().client.listSessions({ status: "running" })).map(({ id }) => id);
      const before = await running();
      expect(before).toContain(session.state.sessionId);
      const remote = gitRepo({ repo: "someone/something" });
      const refused = client.create(new Manifest({ root: "/workspace", entries: { remote } }));
      await expect(refused).rejects.toThrow("cannot put a git_repo");
      // The sandbox that was created for it is gone again.
      expect(await running()).toEqual(before);
    });

    test("lets a command continue, returns new output, and accepts input on a terminal", async () => {
      const cmd = "echo begin; read line; echo got $line; exit 7";
      const begun = await session.exec({ cmd, tty: true, yieldTimeMs: 300 });
      expect(begun).toMatchObject({ output: "begin\r\n", sessionId: expect.any(Number) as number });
      const sessionId = begun.sessionId ?? 0;
      const resumed = await client.resume(
        await client.deserializeSessionState(await client.serializeSessionState(session.state)),
      );
      const ended = await resumed.writeStdin({ sessionId, chars: "news\n", yieldTimeMs: 5000 });
      expect(ended).toContain("Process exited with code 7");
      expect(ended).toContain("got news");
      expect(ended).not.toContain("begin");
      expect(await session.writeStdin({ sessionId: 1 })).toContain("no process with session ID 1");
    });

    test("truncates output as the model requested, and runs the requested shell", async () => {
      const { output, originalTokenCount } = await session.exec({
        cmd: "seq 10000",
        maxOutputTokens: 50,
      });
      expect(output.length).toBeLessThan(1000);
      expect(originalTokenCount).toBeGreaterThan(1000);
      const cmd = "shopt -q login_shell && echo login || echo plain";
      const shells = [
        await session.exec({ cmd, shell: "bash" }),
        await session.exec({ cmd, shell: "bash", login: false }),
      ];
      expect(shells.map(({ stdout }) => stdout)).toEqual(["login\n", "plain\n"]);
    });

    test("returns images up to the SDK's limit, and the address of a port", async () => {
      const png =
        "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR4nGNgYGBgAAAABQABXvMqOgAAAABJRU5ErkJggg==";
      await session.exec({ cmd: `echo ${png} | base64 -d > one.png; cp one.png big.png` });
      expect(await session.viewImage({ path: "one.png" })).toMatchObject({ type: "image" });
      await session.exec({ cmd: `truncate -s ${MAX_VIEW_IMAGE_BYTES + 1} big.png` });
      await expect(session.viewImage({ path: "big.png" })).rejects.toThrow();
      const { port } = new URL(fixture().daemon.url);
      expect(await session.resolveExposedPort(8000)).toMatchObject({
        port: Number(port),
        tls: false,
      });
    });

    test("does not overwrite what was written while a patch was applied", async () => {
      const { files } = await fixture().client.getSession(session.state.sessionId);
      await files.write("raced.txt", "one\n");
      const racing = {
        stat: (path: string) => files.stat(path),
        write: files.write.bind(files),
        readText: async (path: string) => {
          const text = await files.readText(path);
          await files.write(path, "written meanwhile\n");
          return text;
        },
      } as unknown as Files;
      const editor = editorOf(racing, (path) => path);
      const patch = { type: "update_file", path: "raced.txt", diff: "@@\n-one\n+two" } as const;
      await expect(editor.updateFile(patch)).rejects.toMatchObject({ code: "FILE_CHANGED" });
      expect(await files.readText("raced.txt")).toBe("written meanwhile\n");
    });

    test("reads, lists and edits files, and refuses other users", async () => {
      const editor = session.createEditor();
      await editor.createFile({ type: "create_file", path: "new.txt", diff: "+alpha\n+beta" });
      await editor.updateFile({
        type: "update_file",
        path: "new.txt",
        diff: "@@\n alpha\n-beta\n+gamma",
      });
      const bytes = await session.readFile({ path: "new.txt" });
      expect(new TextDecoder().decode(bytes).trim()).toBe("alpha\ngamma");
      const again = editor.createFile({ type: "create_file", path: "new.txt", diff: "+x" });
      await expect(again).rejects.toThrow("new.txt");
      const listed = await session.listDir({ path: "." });
      expect(listed).toContainEqual({ name: "src", path: "/workspace/src", type: "dir" });
      await editor.deleteFile({ type: "delete_file", path: "new.txt" });
      expect(await session.pathExists("new.txt")).toBe(false);
      expect(await session.directoryExists("src")).toBe(true);
      await expect(session.exec({ cmd: "id", runAs: "root" })).rejects.toThrow("one user");
    });

    test("keeps its files in an archive, which another sandbox gets", async () => {
      const other = await client.create({ options: { ttlSeconds: 60 } });
      await other.hydrateWorkspace(await session.persistWorkspace());
      const { stdout } = await other.exec({ cmd: "cat /workspace/notes.txt" });
      expect(stdout).toBe("one\ntwo\n");
      await client.delete(other.state);
      expect(await other.running()).toBe(false);
    });

    const store = new InMemoryRemoteSnapshotStore();
    test.for([
      ["on the daemon", { type: "sandkasten" }],
      ["in a store", { type: "remote", store }],
    ] as const)(
      "keeps a snapshot %s, from which it goes on after its end",
      async ([, snapshot]) => {
        const keeping = new OpenAiSandboxClient(fixture().client, { image: "python", snapshot });
        const manifest = new Manifest({ root: "/workspace", environment: { GREETING: "hello" } });
        const first = await keeping.create({ manifest, options: { ttlSeconds: 90 } });
        await first.exec({ cmd: "echo old > kept" });
        await keeping.serializeSessionState(first.state);
        await first.exec({ cmd: "echo new > kept" });
        const serialized = JSON.stringify(await keeping.serializeSessionState(first.state));
        await first.close();
        const state = await keeping.deserializeSessionState(
          JSON.parse(serialized) as Record<string, unknown>,
        );
        const second = await keeping.resume(state);
        expect(second.state.sessionId).not.toBe(first.state.sessionId);
        expect(await second.exec({ cmd: "cat kept; echo $GREETING" })).toMatchObject({
          stdout: "new\nhello\n",
        });
        const { ttlSeconds } = await fixture().client.getSession(second.state.sessionId);
        expect(ttlSeconds).toBe(90);
        // A live sandbox takes precedence over the snapshot.
        expect((await keeping.resume(second.state)).state.sessionId).toBe(second.state.sessionId);
        await second.close();
        const kept = await fixture().client.snapshots.list();
        // Each snapshot of a session replaces the previous one.
        expect(kept).toHaveLength(snapshot.type === "sandkasten" ? 1 : 0);
        for (const { id } of kept) await fixture().client.snapshots.delete(id);
      },
    );

    test("lets a run that waited for approval continue, even if its sandbox has ended", async () => {
      const { client: sandboxes } = fixture();
      const agent = new SandboxAgent({
        name: "tester",
        instructions: "Work.",
        tools: [
          tool({
            name: "deploy",
            description: "Deploys",
            parameters: {
              type: "object",
              properties: {},
              required: [],
              additionalProperties: true,
            },
            strict: false,
            needsApproval: true,
            execute: () => "deployed",
          }),
        ],
      });
      const sandbox = {
        client: new OpenAiSandboxClient(sandboxes, { image: "python" }),
        snapshot: { type: "sandkasten" },
      };
      await using model = await ScriptedModel.start([
        { name: "exec_command", input: { cmd: "echo kept > note" } },
        { name: "deploy", input: {} },
        { name: "exec_command", input: { cmd: "cat note" } },
      ]);
      const before = new Set((await sandboxes.listSessions()).map(({ id }) => id));
      const waiting = await runnerOf(model).run(agent, "Work.", { sandbox });
      expect(waiting.interruptions).toHaveLength(1);
      const serialized = waiting.state.toString();
      const own = (await sandboxes.listSessions()).filter(({ id }) => !before.has(id));
      for (const { id } of own) await (await sandboxes.getSession(id)).destroy();

      const state = await RunState.fromString(agent, serialized);
      for (const interruption of state.getInterruptions()) state.approve(interruption);
      await runnerOf(model).run(agent, state, { sandbox });
      expect(model.toolOutputs[1]).toBe("deployed");
      expect(model.toolOutputs[2]).toMatch(/exited with code 0[^]*kept/);
      const [snapshot] = await sandboxes.snapshots.list();
      expect(serialized).toContain(snapshot?.id);
      await sandboxes.snapshots.delete(snapshot?.id ?? "");
    });

    test("refuses other kinds of snapshots, and to resume what is gone", async () => {
      const refused = client.create({ snapshot: { type: "local" } });
      await expect(refused).rejects.toThrow("no snapshots of the type local");
      const noStore = client.create({ snapshot: { type: "remote" } });
      await expect(noStore).rejects.toThrow("no snapshots of the type remote");
      const short = await client.create();
      expect(client.canPersistOwnedSessionState(short.state)).toBe(false);
      await short.close();
      await expect(client.resume(short.state)).rejects.toMatchObject({
        code: "snapshot_not_restorable",
        message: expect.stringContaining("no snapshot of it was kept") as string,
      });
      const elsewhere = { ...short.state, snapshot: { type: "remote", id: "one" } };
      await expect(client.resume(elsewhere)).rejects.toThrow("a store that this client does not");
    });

    test("serves a SandboxAgent, whose model is told of its mistakes", async () => {
      await using model = await ScriptedModel.start([
        { name: "teleport", input: {} },
        { name: "exec_command", input: { cmd: 42 } },
        { name: "exec_command", input: { cmd: HUGE } },
        { name: "exec_command", input: { cmd: "echo $((6 * 7)); exit 3" } },
      ]);
      const agent = new SandboxAgent({ name: "tester", instructions: "Work." });
      await runnerOf(model).run(agent, "Work.", { sandbox: { client }, maxTurns: 10 });
      const [unknown, wrong, huge, ran] = model.toolOutputs;
      expect(unknown).toMatch(/teleport.*not found/i);
      // The SDK says no more about its own tools.
      expect(wrong).toContain("An error occurred while running the tool");
      expectShort(huge, /exited with code 126[^]*too long[^]*Write it to a file/);
      expect(ran).toMatch(/Process exited with code 3[^]*42/);
    });
  });
}
