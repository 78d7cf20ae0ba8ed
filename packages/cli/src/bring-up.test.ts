import { mkdtemp, readdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { loadConfig } from "@sandkasten/daemon/config";
import { expect, it, onTestFinished } from "vitest";
import { lockDataDir } from "../../daemon/src/data-dir-lock.ts";
import { SandboxError } from "../../protocol/src/errors.ts";
import { bringUp, startFailure } from "./bring-up.ts";
import { Interrupted } from "./failure.ts";
import { Interrupts } from "./interrupts.ts";
import { describeFailure } from "./report-failure.ts";

const RUNS_ALREADY = /^A daemon may already be running/;

it("a second start on the same data says that a daemon may be running", async () => {
  const dataDir = await mkdtemp(join(tmpdir(), "sandkasten-cli-"));
  onTestFinished(async () => await rm(dataDir, { recursive: true, force: true }));
  const env = { SANDKASTEN_DATA_DIR: dataDir, SANDKASTEN_LOG_LEVEL: "silent" };
  const config = await loadConfig({ env, cwd: dataDir, home: dataDir, isRoot: false });
  using _running = lockDataDir(dataDir);
  const refusal: unknown = await bringUp(config, new Interrupts(() => undefined)).catch(
    (error: unknown) => error,
  );
  expect(describeFailure(refusal)).toMatchObject({
    code: "CONFLICT",
    message: expect.stringContaining(`another daemon is using ${dataDir}`),
    hint: expect.stringMatching(RUNS_ALREADY),
  });
});

it("a refusal for another reason has no hints about a daemon or a session", () => {
  const message = "the database is new, but 2 sandboxes of this daemon are running; restore it";
  const refusals = [
    new SandboxError("CONFLICT", message),
    new SandboxError("CONFLICT", message, { cause: new Error("listen EADDRNOTAVAIL") }),
  ];
  for (const refusal of refusals)
    expect(describeFailure(startFailure(refusal))).toMatchObject({
      code: "CONFLICT",
      message,
      hint: "`sandkasten doctor` checks the machine and the daemon.",
    });
  const failure = new SandboxError("UNSUPPORTED", "no runtime");
  expect(startFailure(failure)).toBe(failure);
});

it.each([
  ["the data directory", (dataDir: string) => ({ SANDKASTEN_DATA_DIR: dataDir }), "--data-dir"],
  [
    "a database elsewhere",
    (dataDir: string) => ({
      SANDKASTEN_DATA_DIR: join(dataDir, "own"),
      SANDKASTEN_DB_PATH: join(dataDir, "sandkasten.db"),
    }),
    "SANDKASTEN_DB_PATH",
  ],
])("%s of the older program is not touched, with a separate exit code", async (_, places, hint) => {
  const dataDir = await mkdtemp(join(tmpdir(), "sandkasten-cli-"));
  onTestFinished(async () => await rm(dataDir, { recursive: true, force: true }));
  const older = new DatabaseSync(join(dataDir, "sandkasten.db"));
  older.exec("CREATE TABLE sessions (id TEXT, image TEXT, container_id TEXT, status TEXT)");
  older.close();
  const env = { ...places(dataDir), SANDKASTEN_LOG_LEVEL: "silent" };
  const config = await loadConfig({ env, cwd: dataDir, home: dataDir, isRoot: false });
  const refusal: unknown = await bringUp(config, new Interrupts(() => undefined)).catch(
    (error: unknown) => error,
  );
  expect(describeFailure(refusal)).toMatchObject({
    code: "CONFLICT",
    message: expect.stringContaining("is the database of the older Sandkasten"),
    hint: expect.stringContaining(hint),
    exitCode: 3,
  });
  expect(await readdir(dataDir)).toEqual(["sandkasten.db"]);
});

it("an interrupted start is aborted", async () => {
  const dataDir = await mkdtemp(join(tmpdir(), "sandkasten-cli-"));
  onTestFinished(async () => await rm(dataDir, { recursive: true, force: true }));
  const env = { SANDKASTEN_DATA_DIR: dataDir, SANDKASTEN_LOG_LEVEL: "silent" };
  const config = await loadConfig({ env, cwd: dataDir, home: dataDir, isRoot: false });
  const interrupts = new Interrupts(() => undefined);
  const stages: string[] = [];
  const starting = bringUp(config, interrupts, (stage) => {
    stages.push(stage);
    interrupts.interrupt({ kind: "signal", signal: "SIGTERM" });
  });
  await expect(starting).rejects.toBeInstanceOf(Interrupted);
  expect(stages).toEqual(["data directory"]);
  // Nothing is locked: another start can proceed.
  lockDataDir(dataDir)[Symbol.dispose]();
});
