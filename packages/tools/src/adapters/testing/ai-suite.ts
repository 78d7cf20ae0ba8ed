/** The AI SDK's real package on a real sandbox. */
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { type Experimental_SandboxSession, generateText, stepCountIs } from "ai";
import type { Session } from "@sandkasten/sdk";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { aiSandbox, aiTools } from "../ai.ts";
import {
  codeTools,
  expectCancelled,
  expectRecovery,
  type Fixture,
  type ScriptedModel,
} from "./adapter-fixture.ts";

const text = async (stream: ReadableStream<Uint8Array>): Promise<string> =>
  await new Response(stream).text();

export function aiSuite(fixture: Fixture): void {
  test("tells a model of its mistakes, and the model recovers", async () => {
    const run = async ({ origin }: ScriptedModel) =>
      await generateText({
        model: createOpenAICompatible({ name: "scripted", baseURL: `${origin}/v1` })("scripted"),
        prompt: "Work.",
        tools: aiTools(codeTools(fixture)),
        stopWhen: stepCountIs(20),
      });
    await expectRecovery(run, {
      unknownTool: /unavailable tool 'sandbox_teleport'.*sandbox_exec/,
      malformed: /JSON/,
    });
  });

  test("cancels the command of a run that is aborted", async () => {
    await expectCancelled(
      fixture,
      async ({ origin }, tools, abortSignal) =>
        await generateText({
          model: createOpenAICompatible({ name: "scripted", baseURL: `${origin}/v1` })("scripted"),
          prompt: "Work.",
          tools: aiTools(tools),
          stopWhen: stepCountIs(20),
          abortSignal,
        }),
    );
  });

  describe("sandbox", () => {
    let session: Session;
    let sandbox: Experimental_SandboxSession;
    beforeAll(async () => {
      session = await fixture().client.createSession({ image: "python" });
      sandbox = aiSandbox(session);
    });
    afterAll(async () => {
      await session.destroy();
    });

    test("describes itself", () => {
      expect(sandbox.description).toMatch(/\/workspace/);
      expect(sandbox.description).toMatch(/no network/);
    });

    test("runs each command in a fresh shell in the base directory", async () => {
      const command = "cd /tmp; echo $NAME; echo bad >&2; exit 3";
      const run = await sandbox.run({ command, env: { NAME: "fritz" } });
      expect(run).toEqual({ exitCode: 3, stdout: "fritz\n", stderr: "bad\n" });
      expect((await sandbox.run({ command: "pwd" })).stdout).toBe("/workspace\n");
      await sandbox.run({ command: "mkdir -p below" });
      const below = await sandbox.run({ command: "pwd", workingDirectory: "below" });
      expect(below.stdout).toBe("/workspace/below\n");
    });

    test("returns a megabyte of output completely", async () => {
      const { stdout } = await sandbox.run({ command: "head -c 1000000 /dev/zero | tr '\\0' x" });
      expect(stdout).toHaveLength(1_000_000);
    });

    test("ends a command that is aborted", async () => {
      const abort = new AbortController();
      const command = "echo $$ > pid; exec sleep 1000";
      const run = Promise.resolve(sandbox.run({ command, abortSignal: abort.signal }));
      await expect.poll(() => sandbox.stat({ path: "pid" })).toMatchObject({ type: "file" });
      abort.abort(new Error("enough"));
      await expect(run).rejects.toThrow("enough");
      const look = "kill -0 $(cat pid)";
      await expect.poll(() => sandbox.run({ command: look })).toMatchObject({ exitCode: 1 });
    });

    test("spawns a process that reads, prints on both streams and exits", async () => {
      const command = "while read line; do echo got $line; done; echo end >&2; exit 5";
      const process = await sandbox.spawn({ command, stdin: true });
      const writer = process.stdin.getWriter();
      await writer.write(new TextEncoder().encode("one\ntwo\n"));
      await writer.close();
      expect(await Promise.all([text(process.stdout), text(process.stderr)])).toEqual([
        "got one\ngot two\n",
        "end\n",
      ]);
      expect(await process.wait()).toEqual({ exitCode: 5 });
      await process.kill();
    });

    test("shows output while a process runs, kills it once or twice, and has no stdin unless asked", async () => {
      const process = await sandbox.spawn({ command: "cat; echo ready; exec sleep 1000" });
      expect(process).not.toHaveProperty("stdin");
      const reader = process.stdout.getReader();
      expect(new TextDecoder().decode((await reader.read()).value)).toBe("ready\n");
      await process.kill();
      await process.kill();
      expect((await process.wait()).exitCode).not.toBe(0);
    });

    test("rejects the wait for an aborted process with the reason", async () => {
      const abort = new AbortController();
      const command = "echo $$ > spawned; exec sleep 1000";
      const process = await sandbox.spawn({ command, abortSignal: abort.signal });
      await expect.poll(() => sandbox.stat({ path: "spawned" })).not.toBeNull();
      const waited = Promise.resolve(process.wait());
      abort.abort(new Error("enough"));
      await expect(waited).rejects.toThrow("enough");
      const look = "kill -0 $(cat spawned)";
      await expect.poll(() => sandbox.run({ command: look })).toMatchObject({ exitCode: 1 });
    });

    test("writes, reads, lists and deletes files", async () => {
      const content = new Blob(["streamed"]).stream();
      await sandbox.writeFile({ path: "tree/deep/a.txt", content });
      await sandbox.writeBinaryFile({ path: "tree/b.bin", content: Uint8Array.of(0, 255) });
      await sandbox.writeTextFile({ path: "tree/c.txt", content: "1\n2\n3\n" });
      await sandbox.writeTextFile({ path: "tree/d.txt", content: "ü", encoding: "utf-16le" });
      await sandbox.writeTextFile({ path: "tree/e.txt", content: "1\r\n2\r\n3\r\n" });
      const [stream, bytes, lines, other, windows] = await Promise.all([
        sandbox.readFile({ path: "tree/deep/a.txt" }),
        sandbox.readBinaryFile({ path: "/workspace/tree/b.bin" }),
        sandbox.readTextFile({ path: "tree/c.txt", startLine: 2, endLine: 99 }),
        sandbox.readTextFile({ path: "tree/d.txt", encoding: "utf-16le" }),
        sandbox.readTextFile({ path: "tree/e.txt", startLine: 2, endLine: 2 }),
      ]);
      expect(await text(stream ?? new ReadableStream())).toBe("streamed");
      expect([...(bytes ?? [])]).toEqual([0, 255]);
      expect([lines, other, windows]).toEqual(["2\n3\n", "ü", "2"]);
      await sandbox.run({ command: "ln -s c.txt tree/link" });
      const entries = (await sandbox.listDirectory({ path: "tree" })) ?? [];
      expect(Object.fromEntries(entries.map(({ name, type }) => [name, type]))).toEqual({
        "b.bin": "file",
        "c.txt": "file",
        "d.txt": "file",
        "e.txt": "file",
        deep: "directory",
        link: "symlink",
      });
      expect(await sandbox.stat({ path: "tree/link" })).toEqual({ type: "file", size: 6 });
      expect(await sandbox.deleteFile({ path: "tree/link" })).toBe(true);
      expect(await sandbox.deleteFile({ path: "tree/link" })).toBe(false);
      expect(await sandbox.readTextFile({ path: "tree/c.txt" })).toBe("1\n2\n3\n");
    });

    test("returns null for missing files, and rejects other kinds", async () => {
      const path = "nowhere/at/all";
      const answers = await Promise.all([
        sandbox.readFile({ path }),
        sandbox.readBinaryFile({ path }),
        sandbox.readTextFile({ path }),
        sandbox.stat({ path }),
        sandbox.listDirectory({ path }),
      ]);
      expect(answers).toEqual([null, null, null, null, null]);
      await sandbox.writeTextFile({ path: "plain/file", content: "" });
      await sandbox.run({ command: "mkdir -p hollow" });
      const wrong = [
        sandbox.deleteFile({ path: "plain" }),
        sandbox.deleteFile({ path: "hollow" }),
        sandbox.writeTextFile({ path: "plain", content: "" }),
        sandbox.listDirectory({ path: "plain/file" }),
      ];
      await Promise.all(wrong.map((call) => expect(call).rejects.toThrow()));
      expect(await sandbox.stat({ path: "plain" })).toMatchObject({ type: "directory" });
    });
  });
}
