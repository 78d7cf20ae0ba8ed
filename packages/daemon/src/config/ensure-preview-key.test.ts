import { chmod, mkdtemp, readFile, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it, onTestFinished } from "vitest";
import { ensurePreviewKey } from "./ensure-preview-key.ts";

it("generates a key that only its owner can read, finds it again, and refuses one that others can read", async () => {
  const dataDir = await mkdtemp(join(tmpdir(), "sandkasten-key-"));
  onTestFinished(async () => await rm(dataDir, { recursive: true, force: true }));
  const path = join(dataDir, "preview-key");
  const key = await ensurePreviewKey(dataDir);
  expect(key).toHaveLength(32);
  expect((await stat(path)).mode & 0o777).toBe(0o600);
  expect(await readFile(path, "utf8")).toBe(`${key.toString("base64url")}\n`);
  expect(await ensurePreviewKey(dataDir)).toEqual(key);
  await chmod(path, 0o644);
  await expect(ensurePreviewKey(dataDir)).rejects.toThrow(`${path} is open to other users`);
  await chmod(path, 0o600);
  await writeFile(path, "short\n");
  await expect(ensurePreviewKey(dataDir)).rejects.toThrow(`${path} contains no valid key`);
});
