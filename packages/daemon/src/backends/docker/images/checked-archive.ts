/** Checks archives before they are passed to an engine, which has no limits itself. */
import type { FileHandle } from "node:fs/promises";
import { ownTurn } from "../../../event-loop-turn.ts";
import { decompress } from "../../../images/decompress.ts";
import { readImageArchive } from "../../../images/image-archive.ts";
import { invalidImage } from "../../../images/image-failure.ts";
import { cleanImagePath, parentOf } from "../../../images/image-path.ts";
import type { UnpackBudget } from "../../../images/unpack-budget.ts";

export interface ArchiveContext {
  readonly budget: UnpackBudget;
  /** Path of the `xz` program. */
  readonly xz: string;
}

export interface CheckedArchive {
  /** Bytes after decompression, to the end of the file. */
  readonly sizeBytes: number;
  readonly entries: number;
  /** It is an image in OCI format, not a root file system. */
  readonly isImage: boolean;
}

/**
 * Reads an archive to its end and counts its contents.
 *
 * SECURITY: an endless stream, a sparse file or millions of entries would fill the engine's disk
 * (threats: filling a disk, using up inodes and hostile archives and images). Guarded by
 * docker-imports.test.ts.
 */
export async function checkArchive(
  file: FileHandle,
  { budget, xz }: ArchiveContext,
  endMarker: "required" | "optional",
): Promise<CheckedArchive> {
  let sizeBytes = 0;
  const bytes = budget.metered(decompress(file, { xz }));
  const counted = {
    next: async (): Promise<IteratorResult<Buffer>> => {
      const next = await bytes.next();
      if (next.done !== true) sizeBytes += next.value.length;
      return next;
    },
    [Symbol.asyncIterator]: () => counted,
  };
  let entries = 0;
  const top = new Set<string>();
  const directories = new Set<string>();
  try {
    for await (const entry of readImageArchive(counted, { endMarker })) {
      await ownTurn();
      const path = cleanImagePath(entry.path, budget.limits);
      budget.spendEntry();
      budget.checkFile(path, entry.sizeBytes);
      entries += 1;
      if (entry.type === "directory") directories.add(path);
      // The engine also creates the directories that only the path names.
      for (let at = parentOf(path); at !== "" && !directories.has(at); at = parentOf(at)) {
        directories.add(at);
        budget.spendEntry();
      }
      const name = path.split("/")[0] ?? "";
      if (name === "oci-layout" || name === "blobs") top.add(name);
    }
    // Data after the end marker is sent as well.
    while ((await counted.next()).done !== true);
  } finally {
    await bytes.return(undefined);
  }
  return { sizeBytes, entries, isImage: top.size === 2 };
}

/** The decompressed archive, which must match what was counted. */
export async function* plainArchive(
  file: FileHandle,
  { sizeBytes }: CheckedArchive,
  { xz, onRead }: { readonly xz: string; readonly onRead?: (bytes: number) => void },
): AsyncGenerator<Buffer> {
  let sent = 0;
  for await (const chunk of decompress(file, { xz, ...(onRead !== undefined && { onRead }) })) {
    sent += chunk.length;
    if (sent > sizeBytes) break;
    yield chunk;
  }
  if (sent !== sizeBytes)
    throw invalidImage("The archive changed while it was being read. Import it again.");
}
