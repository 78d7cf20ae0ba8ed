/**
 * Maps names to images, per owner: one small file per owner and name, so two concurrent imports
 * never undo each other's entry.
 */
import { createHash } from "node:crypto";
import { chmod, mkdir, readdir, rm } from "node:fs/promises";
import { join } from "node:path";
import { ownTurn } from "../event-loop-turn.ts";
import type { ImageInfo } from "../ports/image-store.ts";
import { readJson, writeJson } from "./atomic-json.ts";
import type { ImageReference } from "./reference.ts";

export interface ReferenceEntry {
  /** Canonical. */
  readonly reference: string;
  readonly repository: string;
  /** The digest of the image's directory. */
  readonly digest: string;
  /** The digest that the name resolved to: for a multi-platform image, that of the index. */
  readonly sourceDigest: string;
  readonly source: ImageInfo["source"];
  /** The owner of the name; absent for a name that the administrator shares with all. */
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
   * The image that a reference means to an owner: the owner's entry, or else the shared one. A pinned
   * reference matches only that exact digest, under any name of the same repository.
   *
   * SECURITY: entries of other owners are never considered, so no tenant runs files under a name that
   * another tenant chose (threat: hostile archives and images). Guarded by image-owners.test.ts.
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

  /** Removes the owner's entry. Returns whether there was one. */
  async remove(canonical: string, owner: OwnerName): Promise<boolean> {
    const path = this.#path(canonical, owner);
    if ((await this.#read(path)) === undefined) return false;
    await rm(path, { force: true });
    return true;
  }

  /** What an owner sees: the owner's entries, and the shared ones that they do not override. */
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
      await ownTurn();
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
   * SECURITY: a name is hashed, so it cannot become another path; neither an owner's name nor an
   * image's can contain the zero byte between them (threat: hostile names). Guarded by
   * reference.test.ts.
   */
  #path(canonical: string, owner: OwnerName): string {
    const key = owner === undefined ? canonical : `${owner}\0${canonical}`;
    return join(this.#root, createHash("sha256").update(key).digest("hex") + SUFFIX);
  }
}

function byReference(a: ReferenceEntry, b: ReferenceEntry): number {
  return a.reference < b.reference ? -1 : 1;
}
