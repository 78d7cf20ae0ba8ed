/**
 * Which name stands for which image, for whom: one small file per owner and name, so that two
 * processes that import at once never undo each other's entry.
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
  /** Whose name it is; absent for a name that the administrator shares with all. */
  readonly owner?: string;
  /** Absent in entries of older versions. */
  readonly createdAtMs?: number;
}

/** The name of an owner, or undefined for the administrator. */
export type OwnerName = string | undefined;

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
   * What a reference stands for to an owner: their own entry, else the shared one. A pinned one is
   * only found with exactly that digest, under any name of the same repository.
   *
   * SECURITY: entries of other owners are never looked at, so that nobody runs files under a name
   * that another tenant gave them (threat: hostile archives and images). Guarded by
   * image-owners.test.ts.
   */
  async find(wanted: ImageReference, owner: OwnerName): Promise<ReferenceEntry | undefined> {
    const exact =
      (await this.#read(this.#path(wanted.canonical, owner))) ??
      (await this.#read(this.#path(wanted.canonical, undefined)));
    if (exact !== undefined || wanted.digest === undefined) return exact;
    return (await this.listFor(owner)).find(
      ({ repository, digest, sourceDigest }) =>
        repository === wanted.repository &&
        (digest === wanted.digest || sourceDigest === wanted.digest),
    );
  }

  async put(entry: ReferenceEntry): Promise<void> {
    await writeJson(this.#path(entry.reference, entry.owner), entry);
  }

  /** Removes the entry that is the owner's. Tells whether there was one. */
  async remove(canonical: string, owner: OwnerName): Promise<boolean> {
    const path = this.#path(canonical, owner);
    if ((await this.#read(path)) === undefined) return false;
    await rm(path, { force: true });
    return true;
  }

  /** What an owner sees: their own entries, and the shared ones whose name they have not taken. */
  async listFor(owner: OwnerName): Promise<ReferenceEntry[]> {
    const all = await this.list();
    const own = all.filter((entry) => entry.owner === owner);
    const names = new Set(own.map(({ reference }) => reference));
    const shared = all.filter((entry) => entry.owner === undefined && !names.has(entry.reference));
    return [...own, ...shared].toSorted(byReference);
  }

  /** The entries of all owners. */
  async list(): Promise<ReferenceEntry[]> {
    const entries: ReferenceEntry[] = [];
    for (const name of await readdir(this.#root)) {
      if (!name.endsWith(SUFFIX)) continue;
      const entry = await this.#read(join(this.#root, name));
      if (entry !== undefined) entries.push(entry);
    }
    return entries;
  }

  async #read(path: string): Promise<ReferenceEntry | undefined> {
    const value = await readJson(path);
    return value === undefined ? undefined : (value as ReferenceEntry);
  }

  /**
   * SECURITY: a name is hashed, so no name can become another path; neither an owner's name nor an
   * image's can hold the zero byte between them (threat: hostile names). Guarded by reference.test.ts.
   */
  #path(canonical: string, owner: OwnerName): string {
    const key = owner === undefined ? canonical : `${owner}\0${canonical}`;
    return join(this.#root, createHash("sha256").update(key).digest("hex") + SUFFIX);
  }
}

function byReference(a: ReferenceEntry, b: ReferenceEntry): number {
  return a.reference < b.reference ? -1 : 1;
}
