/** Mastra's real package on real sandboxes. */
import { Agent } from "@mastra/core/agent";
import { Workspace } from "@mastra/core/workspace";
import { afterAll, beforeAll, expect, test } from "vitest";
import { SandkastenSandbox } from "../mastra.ts";
import { expectShort, type Fixture, HUGE, ScriptedModel } from "./adapter-fixture.ts";

export function mastraSuite(fixture: Fixture): void {
  let sandbox: SandkastenSandbox;
  beforeAll(() => {
    const { client } = fixture();
    sandbox = new SandkastenSandbox({ client, id: "mastra-suite", create: { image: "python" } });
  });
  afterAll(async () => {
    await sandbox._destroy();
  });

  test("starts with its first command, once for all commands", async () => {
    expect(sandbox.status).toBe("pending");
    const [first, second] = await Promise.all([
      sandbox.executeCommand?.("echo", ["$HOME"]),
      sandbox.executeCommand?.("pwd; echo bad >&2; exit 3"),
    ]);
    expect(first).toMatchObject({ success: true, exitCode: 0, stdout: "$HOME\n" });
    expect(second).toMatchObject({ exitCode: 3, stdout: "/workspace\n", stderr: "bad\n" });
    expect(sandbox.status).toBe("running");
    expect(sandbox.session.key).toBe("user:mastra-suite:mastra");
  });

  test("connects to the sandbox with its id, and finds its processes there", async () => {
    const handle = await sandbox.processes?.spawn("echo first; read line; echo got $line; exit 4");
    const { client } = fixture();
    const other = new SandkastenSandbox({ client, id: "mastra-suite" });
    expect(await other.start()).toEqual({ outcome: "connected" });
    expect(await other.processes?.list()).toContainEqual({
      pid: handle?.pid,
      command: "echo first; read line; echo got $line; exit 4",
      running: true,
    });
    const again = await other.processes?.get(handle?.pid ?? "");
    await again?.sendStdin("news\n");
    expect(await again?.wait()).toMatchObject({ exitCode: 4, stdout: "first\ngot news\n" });
    expect(await handle?.wait()).toMatchObject({ exitCode: 4, stdout: "first\ngot news\n" });
    expect(await other.processes?.get("exe_none")).toBeUndefined();
  });

  test("streams output, ends input, and kills", async () => {
    const seen: string[] = [];
    const reader = await sandbox.processes?.spawn("cat; echo ended >&2", {
      onStdout: (text) => void seen.push(text),
    });
    await reader?.sendStdin("abc");
    await reader?.closeStdin();
    expect(await reader?.wait()).toMatchObject({ stdout: "abc", stderr: "ended\n", exitCode: 0 });
    expect(seen.join("")).toBe("abc");
    const sleeper = await sandbox.processes?.spawn("setsid sleep 1000 & sleep 1000");
    expect(await sandbox.processes?.kill(sleeper?.pid ?? "")).toBe(true);
    expect(await sleeper?.wait()).toMatchObject({ success: false, exitCode: 137, killed: true });
    expect(await sleeper?.kill()).toBe(false);
    expect(await sandbox.processes?.get(sleeper?.pid ?? "")).toBeUndefined();
    const left = await sandbox.executeCommand?.("pgrep -x sleep | wc -l");
    expect(left?.stdout).toBe("0\n");
  });

  test("has no input unless requested, and ends late and aborted commands", async () => {
    const closed = await sandbox.processes?.spawn("cat; echo end", { stdinMode: "ignore" });
    expect(await closed?.wait()).toMatchObject({ stdout: "end\n", exitCode: 0 });
    const late = await sandbox.processes?.spawn("sleep 1000", { timeout: 300 });
    expect(await late?.wait()).toMatchObject({ timedOut: true, exitCode: 124 });
    const abort = new AbortController();
    const aborted = await sandbox.processes?.spawn("sleep 1000", { abortSignal: abort.signal });
    abort.abort();
    expect(await aborted?.wait()).toMatchObject({ success: false, killed: true });
  });

  test("keeps files and processes while it is stopped", async () => {
    await sandbox.writeFiles([{ path: "kept.sh", content: "echo kept", mode: 0o755 }]);
    await sandbox._stop();
    expect((await sandbox.session.info()).status).toBe("paused");
    expect(await sandbox.start()).toEqual({ outcome: "connected" });
    expect(await sandbox.executeCommand?.("./kept.sh")).toMatchObject({ stdout: "kept\n" });
  });

  test("saves a checkpoint, from which the next sandbox of its name starts, and clones", async () => {
    const { client } = fixture();
    expect(sandbox.supportsCheckpoints).toBe(true);
    const first = sandbox.clone({
      id: "mastra-clone",
      env: { SIZE: "xl" },
      idleTimeoutMinutes: 2,
      checkpointName: "mastra-check",
    });
    expect(await first.executeCommand?.("echo $SIZE | tee kept")).toMatchObject({ stdout: "xl\n" });
    expect(first.session.ttlSeconds).toBe(120);
    expect(first.session.id).not.toBe(sandbox.session.id);
    const again = sandbox.clone({ sandboxId: first.session.id });
    expect(await again.executeCommand?.("cat kept")).toMatchObject({ stdout: "xl\n" });
    await first.snapshot();
    await first._destroy();
    // The image is the checkpoint's.
    const next = new SandkastenSandbox({
      client,
      create: { image: "no-such-image" },
      checkpointName: "mastra-check",
    });
    expect(await next.executeCommand?.("cat kept; echo more >> kept")).toMatchObject({
      stdout: "xl\n",
    });
    // A sandbox whose own checkpoint does not exist yet starts from the seed, which is never
    // overwritten.
    const seeded = sandbox.clone({
      checkpointName: "mastra-own",
      seedCheckpointName: "mastra-check",
    });
    await seeded.executeCommand?.("echo own > kept");
    await seeded.snapshot();
    await seeded._destroy();
    const resumed = sandbox.clone({
      checkpointName: "mastra-own",
      seedCheckpointName: "mastra-check",
    });
    expect(await resumed.executeCommand?.("cat kept")).toMatchObject({ stdout: "own\n" });
    await Promise.all([next._destroy(), resumed._destroy()]);
    const names = (await client.snapshots.list()).map(({ id }) => id);
    expect(names).toEqual(["mastra-check", "mastra-own"]);
    await Promise.all(names.map((name) => client.snapshots.delete(name)));
  });

  test("serves the tools of an agent, whose model is told of its mistakes", async () => {
    await using model = await ScriptedModel.start([
      { name: "teleport", input: {} },
      { name: "mastra_workspace_execute_command", input: { command: 42 } },
      { name: "mastra_workspace_execute_command", input: { command: HUGE } },
      { name: "mastra_workspace_execute_command", input: { command: "echo $((6 * 7))" } },
    ]);
    const agent = new Agent({
      id: "tester",
      name: "tester",
      instructions: "Work.",
      model: { id: "scripted/model", url: `${model.origin}/v1`, apiKey: "none" },
      workspace: new Workspace({ sandbox }),
    });
    await agent.generate("Work.", { maxSteps: 10 });
    const [unknown, wrong, huge, ran] = model.toolOutputs;
    expect(unknown).toMatch(/teleport/);
    expect(wrong).toMatch(/validation|expected string/i);
    expectShort(huge, /at most 8388608 bytes/);
    expect(ran).toContain("42");
  });
}
