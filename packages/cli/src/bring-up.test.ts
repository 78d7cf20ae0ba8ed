import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { loadConfig } from "@sandkasten/daemon/config";
import { expect, it, onTestFinished } from "vitest";
import { lockDataDir } from "../../daemon/src/data-dir-lock.ts";
import { SandboxError } from "../../protocol/src/errors.ts";
import { bringUp, startFailure } from "./bring-up.ts";
import { describeFailure } from "./report-failure.ts";

const RUNS_ALREADY = /^A daemon may run already/;

it("a start beside a daemon on the same data says that one may run already", async () => {
  const dataDir = await mkdtemp(join(tmpdir(), "sandkasten-cli-"));
  onTestFinished(async () => await rm(dataDir, { recursive: true, force: true }));
  const env = { SANDKASTEN_DATA_DIR: dataDir, SANDKASTEN_LOG_LEVEL: "silent" };
  const config = await loadConfig({ env, cwd: dataDir, home: dataDir, isRoot: false });
  using _running = lockDataDir(dataDir);
  const refusal: unknown = await bringUp(config).catch((error: unknown) => error);
  expect(describeFailure(refusal)).toMatchObject({
    code: "CONFLICT",
    message: expect.stringContaining(`another daemon works on ${dataDir}`),
    hint: expect.stringMatching(RUNS_ALREADY),
  });
});

it("a refusal for another reason does not send the reader after a daemon or a session", () => {
  const message = "the database is new, yet 2 sandboxes of this daemon live; restore it";
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
