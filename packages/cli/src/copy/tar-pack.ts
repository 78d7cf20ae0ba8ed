/** Packs a local directory into a tar stream. Links are stored as links, never followed. */
import type { Stats } from "node:fs";
import { lstat, open, opendir, readlink } from "node:fs/promises";
import { join } from "node:path";
import { encodeHeader, endOfArchive, type NewTarEntry, paddingBytes } from "@sandkasten/daemon/tar";

const PIECE_BYTES = 256 * 1024;

/** The total size of a directory's files, for progress. */
export async function contentBytes(root: string): Promise<number> {
  let total = 0;
  for await (const { stats } of walk(root, "")) if (stats.isFile()) total += stats.size;
  return total;
}

export async function* packDirectory(root: string): AsyncGenerator<Uint8Array, void, undefined> {
  for await (const { path, stats } of walk(root, "")) {
    const header = {
      path,
      mode: stats.mode & 0o777,
      sizeBytes: 0,
      mtimeSeconds: stats.mtimeMs / 1000,
      linkTarget: "",
    };
    if (stats.isDirectory()) yield encodeHeader({ ...header, type: "directory", path: `${path}/` });
    else if (stats.isSymbolicLink())
      yield encodeHeader({
        ...header,
        type: "symlink",
        mode: 0o777,
        linkTarget: await readlink(join(root, path)),
      });
    // Sockets, pipes and devices have no content to copy.
    else if (stats.isFile()) yield* packFile(join(root, path), header);
  }
  yield endOfArchive();
}

/** A file may grow or shrink meanwhile: the archive contains as much as its header said. */
async function* packFile(
  file: string,
  header: Omit<NewTarEntry, "type">,
): AsyncGenerator<Uint8Array, void, undefined> {
  await using handle = await open(file, "r");
  const { size } = await handle.stat();
  yield encodeHeader({ ...header, type: "file", sizeBytes: size });
  let rest = size;
  while (rest > 0) {
    const { bytesRead, buffer } = await handle.read(
      Buffer.allocUnsafe(Math.min(rest, PIECE_BYTES)),
    );
    if (bytesRead === 0) throw new Error(`${file} became shorter while it was read`);
    yield buffer.subarray(0, bytesRead);
    rest -= bytesRead;
  }
  yield Buffer.alloc(paddingBytes(size));
}

/** Everything below a directory, parents before children. */
async function* walk(
  root: string,
  below: string,
): AsyncGenerator<{
  readonly path: string;
  readonly stats: Stats;
}> {
  const names: string[] = [];
  for await (const entry of await opendir(join(root, below))) names.push(entry.name);
  for (const name of names.sort()) {
    const path = below === "" ? name : `${below}/${name}`;
    const stats = await lstat(join(root, path));
    yield { path, stats };
    if (stats.isDirectory()) yield* walk(root, path);
  }
}
