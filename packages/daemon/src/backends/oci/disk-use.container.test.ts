/** The disk usage, measured from the host. */
import { mkdir, mkdtemp, readFile, rm, symlink } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { composeEmbedded } from "../../compose-backends.ts";
import { diskUseOf, usedOnDisk } from "./disk-use.ts";
import { readOnce } from "./kernel-files.ts";
import { recordSchema } from "./sandbox-record.ts";

const MIB = 2 ** 20;
const LIMITS = {
  memoryBytes: 64 * MIB,
  cpuMillicores: 1000,
  pids: 32,
  diskBytes: 16 * MIB,
  diskInodes: 1_024,
};
const ID = "sbx_diskuse";

test("is that of the sandbox's own disk, and needs no response from inside", async () => {
  const dataDir = await mkdtemp(join(tmpdir(), "sandkasten-test-"));
  const { backend } = await composeEmbedded({ dataDir, runtime: "crun" });
  try {
    await backend.create({ id: ID, image: "host", limits: LIMITS, profile: "restricted", env: {} });
    const channel = await backend.open(ID);
    const empty = (await backend.stats(ID)).diskBytes;
    expect(empty).toBeLessThan(MIB);
    await channel.writeFile("file", Buffer.alloc(4 * MIB, 1));
    const { diskUsedBytes } = await channel.ping();
    channel.close();
    const record = await readFile(join(dataDir, "sandboxes", ID, "sandbox.json"), "utf8");
    const parsed = recordSchema.parse(JSON.parse(record));
    const { pid } = parsed;
    // PID 1 cannot respond now.
    process.kill(pid, "SIGSTOP");
    const { diskBytes } = await backend.stats(ID);
    expect(diskBytes).toBe(diskUsedBytes);
    expect(diskBytes).toBeGreaterThanOrEqual(empty + 4 * MIB);
    expect(diskUseOf(parsed, readOnce)).toBe(diskBytes);
    // A sandbox that had this pid before has no access to this one's disk.
    const earlier = { ...parsed, start_time: parsed.start_time - 1 };
    expect(diskUseOf(earlier, readOnce)).toBeUndefined();
  } finally {
    await backend.destroy(ID);
    await rm(dataDir, { recursive: true, force: true });
  }
});

test("is not that of the host's disk, to which a link could point", async () => {
  const root = await mkdtemp(join(tmpdir(), "sandkasten-test-"));
  try {
    expect(usedOnDisk(root)).toBeUndefined();
    await mkdir(join(root, "workspace"));
    expect(usedOnDisk(root)).toBeGreaterThan(0);
    await rm(join(root, "workspace"), { recursive: true });
    await symlink("/", join(root, "workspace"));
    expect(usedOnDisk(root)).toBeUndefined();
  } finally {
    await rm(root, { recursive: true, force: true });
  }
});
