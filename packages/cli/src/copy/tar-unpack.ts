/**
 * Unpacks a tar stream below a local directory, and nowhere else.
 *
 * SECURITY: the archive comes from a sandbox, and its content must not leave the directory that the
 * user named (threats: hostile archives and images and links in downloads; guarded by
 * tar-unpack.test.ts). Every parent of an entry is a real directory, checked without following links;
 * files are created new and never opened through existing entries; links are created last, with nothing
 * written after them; set-user-id bits, devices and other special files are left out.
 */
import type { Stats } from "node:fs";
import { chmod, link, lstat, mkdir, open, rm, symlink } from "node:fs/promises";
import { join } from "node:path";
import { makeDirectory } from "@sandkasten/daemon/make-directory";
import { readTar, type TarEntry, TarError } from "@sandkasten/daemon/tar";
import { CliFailure } from "../failure.ts";

/** An archive can claim times that no file system can store. */
const LATEST_TIME_SECONDS = 0o77777777777;

export interface Unpacked {
  readonly entries: number;
  readonly bytes: number;
}

export async function unpackArchive(
  archive: AsyncIterable<Uint8Array>,
  root: string,
): Promise<Unpacked> {
  await makeDirectory(root, 0o777);
  const tree = new LocalTree(root);
  const source = archive[Symbol.asyncIterator]();
  // Without `return`, so that the reader does not close the connection at the end marker.
  const bytesOfArchive = { [Symbol.asyncIterator]: () => ({ next: () => source.next() }) };
  let entries = 0;
  let bytes = 0;
  try {
    for await (const entry of readTar(bytesOfArchive, { endMarker: "required", names: "lossy" })) {
      const path = components(entry.path);
      if (path.length === 0) continue;
      entries++;
      if (entry.type === "directory") await tree.directory(path, entry.mode);
      else if (entry.type === "file") {
        await tree.file(path, entry);
        bytes += entry.sizeBytes;
      } else if (entry.type === "hardlink") await tree.hardLink(path, components(entry.linkTarget));
      else if (entry.type === "symlink") tree.deferLink(path, entry.linkTarget);
    }
    // What follows the end is read, so that the sender is not left waiting.
    while ((await source.next()).done !== true);
    await tree.finish();
  } catch (error) {
    if (!(error instanceof TarError)) throw error;
    throw new CliFailure(`The archive from the sandbox ${error.problem}.`, {
      hint: "Copy it again; what was unpacked so far is left as it is.",
      code: "ARCHIVE_DAMAGED",
      cause: error,
    });
  }
  return { entries, bytes };
}

/** The parts of a path inside the archive. */
function components(path: string): readonly string[] {
  const parts = path.split("/").filter((part) => part !== "" && part !== ".");
  if (path.startsWith("/") || parts.includes("..") || path.includes("\0"))
    throw refused(path, "leads out of the directory");
  return parts;
}

function refused(path: string, why: string): CliFailure {
  return new CliFailure(`The archive from the sandbox was refused: its entry "${path}" ${why}.`, {
    hint: "Do not trust what made it; copy single files, or look at the archive with `cp SESSION:path -`.",
    code: "ARCHIVE_REFUSED",
  });
}

class LocalTree {
  readonly #root: string;
  /** Directories already checked to be real ones. */
  readonly #checked = new Set<string>();
  readonly #links: { readonly path: readonly string[]; readonly target: string }[] = [];
  readonly #modes = new Map<string, number>();

  constructor(root: string) {
    this.#root = root;
  }

  async directory(path: readonly string[], mode: number): Promise<void> {
    await this.#descend(path);
    // A read-only directory could not be filled, so it gets its mode at the end.
    this.#modes.set(this.#at(path), mode & 0o777);
  }

  async file(path: readonly string[], entry: TarEntry): Promise<void> {
    const target = await this.#clear(path);
    await using handle = await open(target, "wx", entry.mode & 0o777);
    for await (const piece of entry.body()) await handle.writeFile(piece);
    const seconds = Math.min(Math.max(0, entry.mtimeSeconds), LATEST_TIME_SECONDS);
    await handle.utimes(seconds, seconds);
  }

  async hardLink(path: readonly string[], to: readonly string[]): Promise<void> {
    const shown = path.join("/");
    await this.#descend(to.slice(0, -1));
    const existing = await this.#look(this.#at(to));
    if (existing?.isFile() !== true) throw refused(shown, "is a link to no file of the archive");
    await link(this.#at(to), await this.#clear(path));
  }

  deferLink(path: readonly string[], target: string): void {
    this.#links.push({ path, target });
  }

  async finish(): Promise<void> {
    for (const { path, target } of this.#links) await symlink(target, await this.#clear(path));
    for (const [path, mode] of [...this.#modes].reverse())
      if ((await this.#look(path))?.isDirectory() === true) await chmod(path, mode);
  }

  #at(path: readonly string[]): string {
    return join(this.#root, ...path);
  }

  async #look(path: string): Promise<Stats | undefined> {
    return await lstat(path).catch((error: NodeJS.ErrnoException) => {
      if (error.code === "ENOENT") return undefined;
      throw error;
    });
  }

  /** Creates the parent directories, and refuses to pass through anything else. */
  async #descend(path: readonly string[]): Promise<void> {
    for (let depth = 1; depth <= path.length; depth++) {
      const directory = this.#at(path.slice(0, depth));
      if (this.#checked.has(directory)) continue;
      const found = await this.#look(directory);
      if (found === undefined) await mkdir(directory, 0o755);
      else if (!found.isDirectory())
        throw refused(
          path.slice(0, depth).join("/"),
          "is a directory, but something else exists there",
        );
      this.#checked.add(directory);
    }
  }

  /** Removes what is at the path. */
  async #clear(path: readonly string[]): Promise<string> {
    await this.#descend(path.slice(0, -1));
    const target = this.#at(path);
    const found = await this.#look(target);
    if (found?.isDirectory() === true)
      throw refused(path.join("/"), "is not a directory, but a directory exists there");
    if (found !== undefined) await rm(target);
    return target;
  }
}
