import { execFile } from "node:child_process";
import { chmod, mkdtemp, readdir, readFile, rm, stat, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { describe, expect, it, onTestFinished } from "vitest";
import { ensureApiKey } from "./ensure-api-key.ts";

const quotas = { maxSessions: 3, maxRunningExecs: 4, maxWorkspaces: 5, maxImageBytes: 6 };

async function makeDirectory(): Promise<string> {
  const directory = await mkdtemp(join(tmpdir(), "sandkasten-key-"));
  onTestFinished(async () => await rm(directory, { recursive: true, force: true }));
  return directory;
}

describe("ensureApiKey()", () => {
  it("uses the first configured key and generates none", async () => {
    const dataDir = await makeDirectory();
    const apiKeys = [
      { name: "ci", key: "12345678", scope: "use" as const, ...quotas },
      { name: "me", key: "87654321", scope: "use" as const, ...quotas },
    ];
    expect(await ensureApiKey({ apiKeys, dataDir, quotas })).toEqual({
      key: "12345678",
      generated: false,
      apiKeys,
    });
    expect(await readdir(dataDir)).toEqual([]);
  });

  it("generates a key that only its owner can read, and finds it at the next start", async () => {
    const dataDir = join(await makeDirectory(), "new", "data");
    const made = await ensureApiKey({ apiKeys: [], dataDir, quotas });
    const path = join(dataDir, "api-key");
    expect(made.key).toMatch(/^sk-sandbox-[A-Za-z0-9_-]{32}$/);
    expect(made).toEqual({
      key: made.key,
      generated: true,
      path,
      apiKeys: [{ name: "default", key: made.key, scope: "admin", ...quotas }],
    });
    expect((await stat(path)).mode & 0o777).toBe(0o600);
    expect((await stat(dataDir)).mode & 0o777).toBe(0o700);
    expect(await readFile(path, "utf8")).toBe(`${made.key}\n`);
    expect(await ensureApiKey({ apiKeys: [], dataDir, quotas })).toEqual(made);
    expect(await readdir(dataDir)).toEqual(["api-key"]);
  });

  it("gives processes that start at once the same key", async () => {
    const dataDir = await makeDirectory();
    const script = `
      const { ensureApiKey } = await import(${JSON.stringify(new URL("ensure-api-key.ts", import.meta.url).href)});
      const config = { apiKeys: [], dataDir: ${JSON.stringify(dataDir)}, quotas: {} };
      const found = await Promise.all(Array.from({ length: 20 }, () => ensureApiKey(config)));
      console.log(found.map(({ key }) => key).join("\\n"));`;
    const run = async (): Promise<string> => {
      const args = ["--input-type=module", "--eval", script];
      return (await promisify(execFile)(process.execPath, args)).stdout;
    };
    const keys = (await Promise.all([run(), run()])).flatMap((output) => output.trim().split("\n"));
    expect(keys).toHaveLength(40);
    expect(new Set(keys).size).toBe(1);
    expect(await readdir(dataDir)).toEqual(["api-key"]);
  });

  it("refuses a file that others can read, a link, or a file without a key", async () => {
    const dataDir = await makeDirectory();
    const path = join(dataDir, "api-key");
    const attempt = ensureApiKey.bind(undefined, { apiKeys: [], dataDir, quotas });
    await writeFile(path, "secret-secret\n", { mode: 0o600 });
    await chmod(path, 0o640);
    await expect(attempt()).rejects.toMatchObject({
      code: "INVALID_REQUEST",
      message: expect.stringContaining(`${path} is open to other users (chmod 600)`),
    });
    await writeFile(path, "short\n");
    await chmod(path, 0o600);
    await expect(attempt()).rejects.toThrow(`${path} contains no valid key`);
    await rm(path);
    await symlink("/etc/hostname", path);
    await expect(attempt()).rejects.toThrow(`${path} is a symbolic link`);
  });

  it("says what to do if the directory cannot be created", async () => {
    const directory = await makeDirectory();
    await writeFile(join(directory, "file"), "");
    const dataDir = join(directory, "file", "data");
    await expect(ensureApiKey({ apiKeys: [], dataDir, quotas })).rejects.toMatchObject({
      code: "INTERNAL_ERROR",
      message: expect.stringContaining("(ENOTDIR); make the directory writable, or set api_key"),
    });
  });
});
