/** ComputeSDK's real packages on real sandboxes. */
import type { ProviderSandbox } from "@computesdk/provider";
import type { Session } from "@sandkasten/sdk";
import { compute } from "computesdk";
import { afterAll, beforeAll, expect, test } from "vitest";
import { sandkasten } from "../computesdk.ts";
import type { Fixture } from "./adapter-fixture.ts";

export function computesdkSuite(fixture: Fixture): void {
  let provider: ReturnType<typeof sandkasten>;
  let sandbox: ProviderSandbox<Session>;
  beforeAll(async () => {
    provider = sandkasten({ client: fixture().client, defaults: { image: "python" } });
    sandbox = await provider.sandbox.create({
      timeout: 60_000,
      envs: { COLOUR: "blue" },
      metadata: { owner: 7 },
      memory: 96,
      cpu: 0.5,
    });
  });
  afterAll(async () => {
    await sandbox.destroy();
  });

  test("creates a sandbox with options, finds it, lists it and describes it", async () => {
    const session = sandbox.getInstance();
    expect(session).toMatchObject({ ttlSeconds: 60, metadata: { owner: "7" } });
    expect(session.limits).toMatchObject({ memoryMb: 96, cpuMillicores: 500 });
    expect((await provider.sandbox.getById(sandbox.sandboxId))?.sandboxId).toBe(session.id);
    const listed = await provider.sandbox.list();
    expect(listed.map(({ sandboxId }) => sandboxId)).toContain(session.id);
    expect(await sandbox.getInfo()).toMatchObject({
      id: session.id,
      provider: "sandkasten",
      status: "running",
      timeout: 60_000,
    });
  });

  test("runs commands with directory, variables, timeout and both streams", async () => {
    const command = "pwd; echo $COLOUR $SIZE; echo bad >&2; exit 3";
    expect(await sandbox.runCommand(command, { cwd: "/tmp", env: { SIZE: "xl" } })).toMatchObject({
      stdout: "/tmp\nblue xl\n",
      stderr: "bad\n",
      exitCode: 3,
    });
    const late = await sandbox.runCommand("echo begun; sleep 1000", { timeout: 500 });
    expect(late).toMatchObject({ stdout: "begun\n", exitCode: 124 });
  });

  test("streams output while a command runs, and starts commands in the background", async () => {
    const seen: string[] = [];
    const result = await sandbox.runCommand("echo one; echo two >&2", {
      onStdout: (text) => void seen.push(`out ${text}`),
      onStderr: (text) => void seen.push(`err ${text}`),
    });
    expect(seen.toSorted()).toEqual(["err two\n", "out one\n"]);
    expect(result).toMatchObject({ stdout: "one\n", stderr: "two\n", exitCode: 0 });
    const command = "sleep 1; echo done > finished";
    expect(await sandbox.runCommand(command, { background: true })).toMatchObject({ exitCode: 0 });
    expect(await sandbox.filesystem.exists("finished")).toBe(false);
    await expect.poll(() => sandbox.filesystem.exists("finished")).toBe(true);
  });

  test("reads, writes, lists and removes files", async () => {
    const { filesystem } = sandbox;
    await filesystem.mkdir("tree/below");
    await filesystem.writeFile("tree/a.txt", "content");
    expect(await filesystem.readFile("/workspace/tree/a.txt")).toBe("content");
    const entries = await filesystem.readdir("tree");
    expect(Object.fromEntries(entries.map(({ name, type }) => [name, type]))).toEqual({
      "a.txt": "file",
      below: "directory",
    });
    await filesystem.remove("tree");
    expect(await filesystem.exists("tree")).toBe(false);
    await expect(filesystem.readFile("tree/a.txt")).rejects.toThrow("tree/a.txt");
  });

  test("takes snapshots, lists them, starts sandboxes from them and deletes them", async () => {
    const { snapshot } = compute({ provider });
    await sandbox.runCommand("echo kept > note; echo home > ~/note");
    const taken = await snapshot.create(sandbox.sandboxId, {
      name: "before",
      metadata: { task: "7" },
    });
    expect(taken).toMatchObject({
      provider: "sandkasten",
      createdAt: expect.any(Date) as Date,
      metadata: { name: "before", task: "7" },
    });
    await sandbox.runCommand("echo changed > note");
    expect(await snapshot.list()).toEqual([taken]);
    expect(await provider.snapshot?.list({ sandboxId: "ses_other" })).toEqual([]);
    // The image is the snapshot's.
    const elsewhere = sandkasten({
      client: fixture().client,
      defaults: { image: "no-such-image" },
    });
    const restored = await elsewhere.sandbox.create({
      snapshotId: taken.id,
      envs: { SIZE: "xl" },
    });
    const { stdout } = await restored.runCommand("cat note ~/note; echo $SIZE");
    expect(stdout).toBe("kept\nhome\nxl\n");
    await restored.destroy();
    await snapshot.delete(taken.id);
    expect(await snapshot.list()).toEqual([]);
    const gone = provider.sandbox.create({ snapshotId: taken.id });
    await expect(gone).rejects.toThrow(`Snapshot ${taken.id} not found`);
  });

  test("returns a URL of a port, and does not find a sandbox that has ended", async () => {
    expect(await sandbox.getUrl({ port: 8000 })).toMatch(/^http:\/\//);
    const short = await compute({ provider }).sandbox.create({ image: "python" });
    await short.destroy();
    expect(await provider.sandbox.getById(short.sandboxId)).toBeNull();
    expect(await provider.sandbox.getById("ses_none")).toBeNull();
    await provider.sandbox.destroy(short.sandboxId);
  });
}
