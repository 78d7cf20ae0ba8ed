/** Creates while the machine has no free loop device. */
import { execFile } from "node:child_process";
import { symlink } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, onTestFinished, test } from "vitest";
import { TestDaemon } from "../support/test-daemon.ts";

const execute = promisify(execFile);
const run = async (program: string, ...args: readonly string[]): Promise<string> =>
  (await execute(program, args)).stdout.trim();

/** More than a machine under test has. */
const LOOP_NODES = 4096;

/** In the daemon's own mount namespace, every loop device is already in use. */
async function takeAllLoopDevices({ pid, dataDir }: TestDaemon): Promise<() => Promise<unknown>> {
  const file = join(dataDir, "busy.img");
  await run("truncate", "--size=1M", file);
  const busy = await run("losetup", "--find", "--show", file);
  onTestFinished(async () => void (await run("losetup", "--detach", busy)));
  const inside = (...command: readonly string[]): Promise<string> =>
    run("nsenter", `--target=${pid}`, "--mount", ...command);
  const nodes = ["null", "zero", "full", "random", "urandom", "tty", "loop-control"];
  await inside(
    "sh",
    "-ec",
    `mkdir "$0/dev"; mount -t tmpfs none "$0/dev"
     for node in ${nodes.join(" ")}; do cp --archive "/dev/$node" "$0/dev"; done
     cp --archive "$1" "$0/dev/busy"
     mount --move "$0/dev" /dev`,
    dataDir,
    busy,
  );
  for (let number = 0; number < LOOP_NODES; number++)
    await symlink("busy", `/proc/${pid}/root/dev/loop${number}`);
  return () => inside("umount", "/dev");
}

test("a create without a free loop device returns BACKEND_BUSY, and succeeds when there is one", async () => {
  await using daemon = await TestDaemon.start({
    runBy: ["unshare", "--mount", "--propagation", "private"],
  });
  const living = await daemon.open();
  const release = await takeAllLoopDevices(daemon);
  const create = () => daemon.call("POST", "/v1/sessions", {});
  for (const { status, headers, body } of await Promise.all([create(), create()])) {
    expect(body).toMatchObject({
      error_code: "BACKEND_BUSY",
      message: expect.stringContaining("no free loop device"),
    });
    expect([status, headers.get("retry-after")]).toEqual([503, "1"]);
  }
  expect(await daemon.exec(living, "echo works")).toMatchObject({ stdout: "works\n" });
  await release();
  const later = await daemon.open();
  expect(await daemon.exec(later, "echo works")).toMatchObject({ stdout: "works\n" });
  for (const id of [living, later]) await daemon.call("DELETE", `/v1/sessions/${id}`);
});
