/**
 * Fails every test after which a device node of the host has another owner or mode. A set-up file
 * of all projects whose tests create sandboxes.
 */
import { stat } from "node:fs/promises";
import { afterEach, beforeEach } from "vitest";

const DEVICES = ["null", "zero", "full", "random", "urandom", "tty", "ptmx"];

/** Owner, group and mode of each, as a line. */
async function hostDevices(): Promise<readonly string[]> {
  return await Promise.all(
    DEVICES.map(async (name) => {
      const { uid, gid, mode } = await stat(`/dev/${name}`);
      return `/dev/${name} ${uid}:${gid} ${(mode & 0o7777).toString(8)}`;
    }),
  );
}

let before: readonly string[] = [];

beforeEach(async () => {
  before = await hostDevices();
});

afterEach(async () => {
  const changed = (await hostDevices()).filter((line, index) => line !== before[index]);
  if (changed.length > 0)
    throw new Error(`The host's devices are not as they were before: ${changed.join(", ")}`);
});
