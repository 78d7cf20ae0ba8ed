/** Files that are damaged as a whole, and rows that another program wrote. */
import { createHash, randomBytes } from "node:crypto";
import { cp, mkdir, readdir, readFile, truncate, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { FENCE, MANY, execRow, sessionRow } from "@sandkasten/testkit";
import { describe, expect, test } from "vitest";
import { StoreDirectory } from "./testing/store-directory.ts";

/** A database of some 40 pages, closed. */
async function filledDatabase(): Promise<StoreDirectory> {
  const directory = await StoreDirectory.make();
  await fill(directory);
  directory.closeAll();
  return directory;
}

async function fill(directory: StoreDirectory): Promise<void> {
  const store = await directory.openJoined();
  for (let i = 0; i < 100; i++) {
    const row = sessionRow({ metadata: { padding: "x".repeat(500) } });
    await store.insertSession(row, MANY);
    await store.insertExec(execRow(row.id), FENCE, MANY);
  }
}

/** As a killed daemon leaves it: the last change is only in the log. */
async function killedDatabase(): Promise<StoreDirectory> {
  await using living = await filledDatabase();
  const store = await living.open();
  const [row] = await store.livingSessions();
  await store.updateSession(row!.id, FENCE, ["running"], { leaseEndsMs: 2 });
  const killed = await StoreDirectory.make();
  await cp(living.data, killed.data, { recursive: true });
  return killed;
}

async function hashesOf(data: string, names: readonly string[]): Promise<string[]> {
  const contents = await Promise.all(names.map((name) => readFile(join(data, name))));
  return contents.map((content) => createHash("sha256").update(content).digest("hex"));
}

async function expectRefused(directory: StoreDirectory): Promise<void> {
  const { data, path } = directory;
  const names = await readdir(data);
  const before = await hashesOf(data, names);
  await expect(directory.open()).rejects.toMatchObject({
    code: "INTERNAL_ERROR",
    message: expect.stringMatching(
      `${path} is damaged: .*\\. Restore it from a backup, or move away`,
    ) as unknown,
  });
  expect(await hashesOf(data, names)).toEqual(before);
}

async function overwrite(path: string, at: number, bytes: Uint8Array): Promise<void> {
  const content = await readFile(path);
  content.set(bytes, at);
  await writeFile(path, content);
}

describe("a damaged file is refused and left unchanged", () => {
  test.each([
    ["text", Buffer.from("these are not the bytes you are looking for\n".repeat(200))],
    ["a few bytes", Buffer.from("x")],
    ["noise", randomBytes(20_000)],
  ])("if it is %s", async (_, content) => {
    await using directory = await StoreDirectory.make();
    await mkdir(directory.data);
    await writeFile(directory.path, content);
    await expectRefused(directory);
  });

  test.each([1, 99, 100, 511, 4_096, 5_000, 40_960, -4_096, -1])(
    "if %i bytes of it are left, or missing",
    async (bytes) => {
      await using directory = await filledDatabase();
      const { length } = await readFile(directory.path);
      await truncate(directory.path, bytes > 0 ? bytes : length + bytes);
      await expectRefused(directory);
    },
  );

  test.each([0, 16, 100, 4_096, 12_288])("if bytes from %i on are different", async (at) => {
    await using directory = await filledDatabase();
    await overwrite(directory.path, at, new Uint8Array(64).fill(0xff));
    await expectRefused(directory);
  });

  test("if its log is complete", async () => {
    await using directory = await killedDatabase();
    await overwrite(directory.path, 12_288, new Uint8Array(64).fill(0xff));
    await expectRefused(directory);
  });

  test("if it is empty but its log is not", async () => {
    await using directory = await killedDatabase();
    await truncate(directory.path, 0);
    await expectRefused(directory);
  });

  test("until the backup is restored", async () => {
    await using directory = await filledDatabase();
    const backup = await readFile(directory.path);
    await truncate(directory.path, 8_192);
    await expectRefused(directory);
    await writeFile(directory.path, backup);
    const store = await directory.open();
    expect(await store.livingSessions()).toHaveLength(100);
  });
});

describe("a row that another program changed", () => {
  test.each([
    ["sessions", "limits", "no JSON"],
    ["sessions", "limits", '{"memoryBytes":"much"}'],
    ["sessions", "metadata", '{"a":1}'],
    ["sessions", "metadata", "["],
    ["sessions", "status", "resting"],
    ["sessions", "profile", "superuser"],
    ["execs", "command", '{"rm":"-rf"}'],
    ["execs", "end_reason", "boredom"],
    ["execs", "shell_restarted", 2],
  ])("is named, and hides no other one: %s.%s = %j", async (table, column, value) => {
    await using directory = await StoreDirectory.make();
    const writer = await directory.openJoined();
    for (const at of ["1", "2"]) {
      await writer.insertSession(sessionRow({ id: `ses_${at}`, metadata: { team: "x" } }), MANY);
      await writer.insertExec(execRow("ses_1", { id: `exe_${at}` }), FENCE, MANY);
    }
    const isSession = table === "sessions";
    const id = isSession ? "ses_1" : "exe_1";
    directory.tamper((database) => {
      database.prepare(`UPDATE ${table} SET ${column} = ? WHERE id = ?`).run(value, id);
    });

    const logged: unknown[] = [];
    const note = (fields: unknown): void => void logged.push(fields);
    const store = await directory.open({ info: note, warn: note, error: note });
    const refusal = {
      code: "INTERNAL_ERROR",
      message: expect.stringMatching(`Row "${id}" of the table ${table} .*${column}`) as unknown,
    };
    if (isSession) {
      await expect(store.getSession(id)).rejects.toMatchObject(refusal);
      expect(await store.getSession("ses_2")).toBeDefined();
      for (const filter of [{}, { metadata: { team: "x" } }, { limit: 1 }]) {
        const page = await store.listSessions({ owner: "alice", limit: 10, ...filter });
        expect(page.rows.map((row) => row.id)).toEqual(["ses_2"]);
      }
      // A cleanup by this list must not treat missing rows as deleted.
      await expect(store.livingSessions()).rejects.toMatchObject(refusal);
    } else {
      await expect(store.getExec("ses_1", id)).rejects.toMatchObject(refusal);
      const page = await store.listExecs("ses_1", { limit: 10 });
      expect(page.rows.map((row) => row.id)).toEqual(["exe_2"]);
      await expect(store.unfinishedExecs(FENCE)).rejects.toMatchObject(refusal);
    }
    expect(logged).toContainEqual({ err: expect.objectContaining(refusal) as unknown });
  });
});
