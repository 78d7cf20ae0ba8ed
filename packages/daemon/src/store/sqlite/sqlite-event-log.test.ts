import { mkdtemp, readdir, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { eventLogSuite } from "@sandkasten/testkit";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { SqliteEventLog } from "./sqlite-event-log.ts";

eventLogSuite("SQLite", async () => {
  const directory = await mkdtemp(join(tmpdir(), "sandkasten-events-"));
  const path = join(directory, "events.db");
  let log = await SqliteEventLog.open({ path });
  return {
    log,
    reopen: async () => {
      log.close();
      return (log = await SqliteEventLog.open({ path }));
    },
    close: async () => {
      log.close();
      await rm(directory, { recursive: true });
    },
  };
});

describe("the file of events", () => {
  let directory: string;
  beforeEach(async () => {
    directory = await mkdtemp(join(tmpdir(), "sandkasten-events-"));
  });
  afterEach(async () => await rm(directory, { recursive: true }));

  it("can be read by the daemon's user only", async () => {
    const path = join(directory, "events.db");
    await writeFile(path, "", { mode: 0o644 });
    const log = await SqliteEventLog.open({ path });
    await log.append([{ type: "session.paused", owner: "alice", atMs: 1, data: {} }]);
    for (const name of await readdir(directory))
      expect(`${name} ${(await stat(join(directory, name))).mode & 0o077}`).toBe(`${name} 0`);
    log.close();
  });

  it("shrinks when events are removed", async () => {
    const path = join(directory, "events.db");
    const log = await SqliteEventLog.open({ path });
    const data = { reference: "x".repeat(2_000), backend: "oci" };
    for (let round = 0; round < 4; round++)
      await log.append(
        Array.from({ length: 500 }, () => ({
          type: "image.removed" as const,
          owner: "alice",
          atMs: 1,
          data,
        })),
      );
    log.close();
    expect((await stat(path)).size).toBeGreaterThan(4_000_000);
    const again = await SqliteEventLog.open({ path });
    const all = { maxEventsPerOwner: 10_000, maxEvents: 10_000, maxBytes: 1 << 30 };
    for (let round = 0; round < 20; round++) await again.prune({ ...all, maxAgeMs: 1 }, 10);
    again.close();
    expect((await stat(path)).size).toBeLessThan(1_000_000);
  });

  it("is replaced by a new one if it is damaged, and this is logged", async () => {
    const path = join(directory, "events.db");
    const junk = Buffer.alloc(8192, "this is no database ");
    await writeFile(path, junk);
    const lines: string[] = [];
    const note = (_fields: unknown, message: string): void => void lines.push(message);
    const log = await SqliteEventLog.open({
      path,
      log: { info: note, warn: note, error: note },
    });
    expect(await log.newest()).toBe(0);
    expect(lines).toEqual(["the event log is damaged; moved it aside"]);
    expect((await stat(`${path}.damaged`)).size).toBe(junk.length);
    log.close();
  });

  it("is left alone if it cannot be opened for another reason", async () => {
    const path = join(directory, "events.db");
    const log = await SqliteEventLog.open({ path });
    await log.append([{ type: "session.paused", owner: "alice", atMs: 1, data: {} }]);
    await expect(SqliteEventLog.open({ path })).rejects.toThrow(/locked/);
    expect(await readdir(directory)).not.toContain("events.db.damaged");
    log.close();
  });
});
