/**
 * The directories that hold unpacked images: `<sha256>/{rootfs,image.json}`.
 *
 * A directory with that name is complete: it is filled under a temporary name and renamed. Temporary
 * directories left by a killed process are removed when the store is next opened.
 *
 * SECURITY: everything below is closed to other users of the machine (0700), because the files
 * inside carry the owners and modes of the image. Guarded by local-image-store.test.ts.
 */
import { randomUUID } from "node:crypto";
import { chmod, mkdir, readdir, rename, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { readJson } from "./atomic-json.ts";
import { systemCode } from "../system-errors.ts";
import { isOwnerAlive, ownerTag } from "./owner-tag.ts";

/** What is known about an unpacked image, independent of its names. */
export interface ImageRecord {
  readonly digest: string;
  readonly sizeBytes: number;
  /** Absent in records of older versions. */
  readonly diskBytes?: number;
  readonly createdAtMs: number;
  readonly env: Readonly<Record<string, string>>;
}

const TEMPORARY_PREFIX = "tmp-";
const DIGEST_DIRECTORY = /^[0-9a-f]{64}$/;

/** Below the data directory. */
export const IMAGES_DIRECTORY = "images";
export const REFERENCES_DIRECTORY = "references";

/** Whether there are entries, none of which is ours. */
export async function hasForeignImages(root: string): Promise<boolean> {
  const names = await readdir(root).catch((error: unknown) => {
    if (systemCode(error) === "ENOENT" || systemCode(error) === "ENOTDIR") return [];
    throw error;
  });
  const isOurs = (name: string): boolean =>
    name === REFERENCES_DIRECTORY ||
    name.startsWith(TEMPORARY_PREFIX) ||
    DIGEST_DIRECTORY.test(name);
  // The root directory of a separate file system has that one.
  const others = names.filter((name) => name !== "lost+found");
  return others.length > 0 && !others.some((name) => isOurs(name));
}

export class ImageDirectories {
  readonly #root: string;
  readonly #owner: string;

  private constructor(root: string, owner: string) {
    this.#root = root;
    this.#owner = owner;
  }

  static async open(root: string): Promise<ImageDirectories> {
    await mkdir(root, { recursive: true, mode: 0o700 });
    await chmod(root, 0o700);
    const owner = await ownerTag(process.pid);
    if (owner === undefined) throw new Error("The image store needs /proc to be mounted.");
    const directories = new ImageDirectories(root, owner);
    await directories.#sweep();
    return directories;
  }

  /** Runs work in a new empty directory, which is removed afterwards unless it was committed. */
  async inTemporary<T>(work: (directory: string) => Promise<T>): Promise<T> {
    const directory = this.#temporaryPath();
    await mkdir(directory, { mode: 0o700 });
    try {
      return await work(directory);
    } finally {
      await rm(directory, { recursive: true, force: true });
    }
  }

  /**
   * Makes `<directory>/rootfs` the image with its digest, after `settle` has made the final changes
   * to the files. If another process was faster, its result is kept.
   */
  async commit(
    directory: string,
    record: ImageRecord,
    settle: (directory: string) => Promise<void>,
  ): Promise<void> {
    await writeFile(join(directory, "image.json"), JSON.stringify({ version: 1, ...record }), {
      mode: 0o600,
    });
    await settle(directory);
    try {
      await rename(directory, this.#path(record.digest));
    } catch (error) {
      if (systemCode(error) !== "ENOTEMPTY" && systemCode(error) !== "EEXIST") throw error;
    }
  }

  async read(digest: string): Promise<ImageRecord | undefined> {
    const value = await readJson(join(this.#path(digest), "image.json"));
    return value === undefined ? undefined : (value as ImageRecord);
  }

  rootfsPath(digest: string): string {
    return join(this.#path(digest), "rootfs");
  }

  async listDigests(): Promise<string[]> {
    const names = await readdir(this.#root);
    return names.filter((name) => DIGEST_DIRECTORY.test(name)).map((name) => `sha256:${name}`);
  }

  /**
   * Removes an image unless `isWanted` returns true. It is checked again after the image was moved
   * away, because another process may just have named it.
   */
  async remove(digest: string, isWanted: () => Promise<boolean>): Promise<boolean> {
    const aside = this.#temporaryPath();
    try {
      await rename(this.#path(digest), aside);
    } catch (error) {
      if (systemCode(error) === "ENOENT") return false;
      throw error;
    }
    if (await isWanted()) {
      try {
        await rename(aside, this.#path(digest));
        return false;
      } catch (error) {
        if (systemCode(error) !== "ENOTEMPTY" && systemCode(error) !== "EEXIST") throw error;
      }
    }
    await rm(aside, { recursive: true, force: true });
    return true;
  }

  async #sweep(): Promise<void> {
    for (const name of await readdir(this.#root)) {
      if (!name.startsWith(TEMPORARY_PREFIX)) continue;
      const [pid, startTime] = name.slice(TEMPORARY_PREFIX.length).split("-");
      if (await isOwnerAlive(`${pid}-${startTime}`)) continue;
      await rm(join(this.#root, name), { recursive: true, force: true });
    }
  }

  #temporaryPath(): string {
    return join(this.#root, `${TEMPORARY_PREFIX}${this.#owner}-${randomUUID()}`);
  }

  #path(digest: string): string {
    const name = digest.slice("sha256:".length);
    if (!DIGEST_DIRECTORY.test(name)) throw new Error(`Not a digest: ${JSON.stringify(digest)}`);
    return join(this.#root, name);
  }
}
