/** The directories that the daemon creates for workspaces. */
import { mkdtemp, readdir, rm, stat } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { SessionDirectories } from "./session-directories.ts";

const ID = "sbx_0123456789abcdef0123456789abcdef";

test("a workspace has mode 0755 under any umask, and is removed completely", async () => {
  const base = await mkdtemp(join(tmpdir(), "sandkasten-workspaces-"));
  const umask = process.umask(0o077);
  try {
    const directories = new SessionDirectories({ base, instance: "one", private: false });
    await directories.make(ID);
    expect((await stat(join(base, ID))).mode & 0o7777).toBe(0o755);
    expect(await directories.list()).toEqual([ID]);
    await directories.remove(ID);
    expect(await readdir(base)).toEqual([]);
  } finally {
    process.umask(umask);
    await rm(base, { recursive: true });
  }
});
