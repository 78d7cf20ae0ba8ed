/**
 * Which name stands for which image: one small file per name, so that two processes that
 * import at once never undo each other's entry.
 */
import { createHash } from "node:crypto";
import { chmod, mkdir, readdir, rm } from "node:fs/promises";
import { join } from "node:path";
import type { ImageInfo } from "../ports/image-store.ts";
import { readJson, writeJson } from "./atomic-json.ts";
import type { ImageReference } from "./reference.ts";

export interface ReferenceEntry {
  /** Canonical. */
  readonly reference: string;
  readonly repository: string;
  /** Of the image's directory. */
  readonly digest: string;
  /** Of what the name led to: for an image of several platforms, of the list of them. */
  readonly sourceDigest: string;
  readonly source: ImageInfo["source"];
}

const SUFFIX = ".json";

export class ReferenceTable {
  readonly #root: string;

  private constructor(root: string) {
    this.#root = root;
  }

  static async open(root: string): Promise<ReferenceTable> {
    await mkdir(root, { recursive: true, mode: 0o700 });
    await chmod(root, 0o700);
    return new ReferenceTable(root);
  }

  /**
   * The entry of a reference. A pinned one is only found with exactly that digest, under any
   * name of the same repository.
   */
  async find(wanted: ImageReference): Promise<ReferenceEntry | undefined> {
    const exact = await this.#read(this.#path(wanted.canonical));
    if (exact !== undefined || wanted.digest === undefined) return exact;
    const sameRepository = (await this.list()).filter(
      (entry) => entry.repository === wanted.repository,
    );
    return sameRepository.find(
      (entry) => entry.digest === wanted.digest || entry.sourceDigest === wanted.digest,
    );
  }

  async put(entry: ReferenceEntry): Promise<void> {
    await writeJson(this.#path(entry.reference), entry);
  }

  /** Whether there was such an entry. */
  async remove(canonical: string): Promise<boolean> {
    if ((await this.#read(this.#path(canonical))) === undefined) return false;
    await rm(this.#path(canonical), { force: true });
    return true;
  }

  async list(): Promise<ReferenceEntry[]> {
    const entries: ReferenceEntry[] = [];
    for (const name of await readdir(this.#root)) {
      if (!name.endsWith(SUFFIX)) continue;
      const entry = await this.#read(join(this.#root, name));
      if (entry !== undefined) entries.push(entry);
    }
    return entries.sort((a, b) => (a.reference < b.reference ? -1 : 1));
  }

  async #read(path: string): Promise<ReferenceEntry | undefined> {
    const value = await readJson(path);
    return value === undefined ? undefined : (value as ReferenceEntry);
  }

  /** SECURITY: a name is hashed, so no name can become another path (threat 37). Guarded by reference.test.ts. */
  #path(canonical: string): string {
    return join(this.#root, createHash("sha256").update(canonical).digest("hex") + SUFFIX);
  }
}
