/** Threats: a full data disk, a damaged database and dead pooled sandboxes. A full disk, a damaged database, a pool that dies. */
import { copyFile, readdir, readFile, rm, stat, truncate, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { composeEmbedded } from "@sandkasten/daemon";
import { afterEach, describe, expect, it } from "vitest";
import { SmallDisk } from "../support/small-disk.ts";
import { TestDaemon } from "../support/test-daemon.ts";

let stack = new AsyncDisposableStack();
afterEach(async () => {
  await stack.disposeAsync();
  stack = new AsyncDisposableStack();
});

async function startDaemon(options: Parameters<typeof TestDaemon.start>[0] = {}) {
  return stack.use(await TestDaemon.start(options));
}

describe("a full disk under the data directory", () => {
  it("returns 507; reads and destroy continue, and everything works when there is space again", async () => {
    const disk = stack.use(await SmallDisk.mount(48));
    const dataDir = disk.path;
    const daemon = await TestDaemon.start({ dataDir });
    stack.defer(async () => {
      await daemon.kill();
      const { backend } = await composeEmbedded({ dataDir });
      for (const { id } of await backend.list()) await backend.destroy(id);
    });
    const first = await daemon.open();
    const second = await daemon.open();
    await daemon.exec(first, "echo before > note");
    await disk.fill();

    const refused = await daemon.call("POST", "/v1/sessions", {});
    expect(refused).toMatchObject({ status: 507, body: { error_code: "STORAGE_FULL" } });
    const read = await daemon.call("GET", `/v1/sessions/${first}/fs/read?path=note`);
    expect(read).toMatchObject({
      status: 200,
      body: { content_base64: Buffer.from("before\n").toString("base64") },
    });
    expect(await daemon.call("GET", "/v1/sessions")).toMatchObject({ status: 200 });
    expect(await daemon.call("DELETE", `/v1/sessions/${second}`)).toMatchObject({ status: 200 });
    expect((await daemon.call("GET", `/v1/sessions/${second}`)).body).toMatchObject({
      status: "destroyed",
    });

    await disk.makeRoom();
    const third = await daemon.open();
    expect(await daemon.exec(third, "echo again")).toMatchObject({ output: "again\n" });
    expect(await daemon.exec(first, "cat note")).toMatchObject({ output: "before\n" });
    await daemon.kill("SIGTERM");
    expect(integrity(join(dataDir, "sandkasten.db"))).toBe("ok");
  });
});

describe("a damaged database", () => {
  it("refuses to start, names the file, and does not affect live sandboxes", async () => {
    const daemon = await startDaemon();
    const id = await daemon.open();
    await daemon.exec(id, "KEPT=yes");
    await daemon.kill("SIGTERM");
    const path = join(daemon.dataDir, "sandkasten.db");
    const backup = `${path}.backup`;
    await copyFile(path, backup);
    const [sandbox] = await readdir(join(daemon.dataDir, "sandboxes"));
    const damages = {
      "bytes flipped": () => flipBytes(path),
      "cut in half": async () => truncate(path, Math.floor((await stat(path)).size / 2)),
      emptied: () => truncate(path, 0),
      "not a database": () => writeFile(path, "hello, I am a text ".repeat(1000)),
      gone: () => rm(path),
    };
    for (const [what, damage] of Object.entries(damages)) {
      await copyFile(backup, path);
      await damage();
      const started = await daemon.run().then(
        () => "it started",
        (error: Error) => error.message,
      );
      const sandboxes = await readdir(join(daemon.dataDir, "sandboxes"));
      expect({ what, started, sandboxes }).toEqual({
        what,
        started: expect.stringMatching(/sandkasten\.db|database is new/u) as string,
        sandboxes: [sandbox],
      });
    }
    await copyFile(backup, path);
    await daemon.run();
    expect(await daemon.exec(id, "echo $KEPT")).toMatchObject({ output: "yes\n" });
  });
});

describe("the pool", () => {
  it("replaces a sandbox that died before it was claimed, and never hands it out", async () => {
    const daemon = await startDaemon({ settings: { POOL: "host=1" } });
    await untilPooled(daemon, 1);
    const directory = join(daemon.dataDir, "sandboxes");
    const [dead = ""] = await readdir(directory);
    const notes = await readFile(join(directory, dead, "sandbox.json"), "utf8");
    const { pid } = JSON.parse(notes) as { pid: number };
    process.kill(pid, "SIGKILL");
    await expect.poll(() => isRunning(pid)).toBe(false);
    // The daemon has not noticed: it still counts the sandbox as ready.
    await untilPooled(daemon, 1);
    const { body: session } = await daemon.call("POST", "/v1/sessions", {});
    expect(session).toMatchObject({ status: "running", acquire_source: "cold" });
    expect(await daemon.exec(String(session["id"]), "echo alive")).toMatchObject({
      output: "alive\n",
    });
    expect(await readdir(directory)).not.toContain(dead);
    await untilPooled(daemon, 1);
    const { body: pooled } = await daemon.call("POST", "/v1/sessions", {});
    expect(pooled).toMatchObject({ status: "running", acquire_source: "pool" });
    expect(await daemon.exec(String(pooled["id"]), "echo alive")).toMatchObject({
      output: "alive\n",
    });
  });
});

async function untilPooled(daemon: TestDaemon, count: number): Promise<void> {
  const pooled = async (): Promise<string | undefined> => {
    const metrics = await (await daemon.fetch("/v1/metrics")).text();
    return /^sandkasten_pooled_sandboxes (\d+)$/mu.exec(metrics)?.[1];
  };
  await expect.poll(pooled).toBe(String(count));
}

/** A zombie that was not reaped yet is not running. */
async function isRunning(pid: number): Promise<boolean> {
  const status = await readFile(`/proc/${pid}/status`, "utf8").catch(() => "State: X");
  return !/^State:\s+[XZ]/mu.test(status);
}

async function flipBytes(path: string): Promise<void> {
  const bytes = await readFile(path);
  for (let i = 100; i < bytes.length; i += 97) bytes[i] = (bytes[i] ?? 0) ^ 0xff;
  await writeFile(path, bytes);
}

function integrity(path: string): unknown {
  const database = new DatabaseSync(path);
  try {
    return database.prepare("PRAGMA integrity_check").get()?.["integrity_check"];
  } finally {
    database.close();
  }
}
