/**
 * Writes an image in the format of `docker save`, which every engine can load.
 *
 * SECURITY: an archive is never passed on unchanged: it could name other images than the one it is
 * imported as, and the engine would overwrite them (threat: hostile archives and images).
 * Guarded by docker-imports.test.ts.
 */
import { constants } from "node:fs";
import { open } from "node:fs/promises";
import { paddingBytes } from "../../../tar/tar-header.ts";
import { endOfArchive } from "../../../tar/tar-writer.ts";
import { entryOf, headerOf } from "../archives.ts";
import { plainArchive } from "./checked-archive.ts";
import type { CheckedArchive } from "./checked-archive.ts";

export interface ArchivedLayer {
  readonly path: string;
  readonly checked: CheckedArchive;
}

export interface ArchivedImage {
  /** `repository:tag`, its only name. */
  readonly name: string;
  readonly config: Buffer;
  /** Lowest layer first. */
  readonly layers: readonly ArchivedLayer[];
}

export interface WriteOptions {
  /** Path of the `xz` program. */
  readonly xz: string;
  /** Called with the number of bytes read from the layers' files. */
  readonly onRead: (bytes: number) => void;
}

const MODE = 0o644;

export async function* dockerArchive(
  { name, config, layers }: ArchivedImage,
  options: WriteOptions,
): AsyncGenerator<Buffer> {
  const names = layers.map((_, index) => `${index}.tar`);
  const manifest = [{ Config: "config.json", RepoTags: [name], Layers: names }];
  const bytes = Buffer.from(JSON.stringify(manifest));
  yield entryOf({ name: "manifest.json", mode: MODE, bytes });
  yield entryOf({ name: "config.json", mode: MODE, bytes: config });
  for (const [index, layer] of layers.entries()) {
    const { sizeBytes } = layer.checked;
    yield headerOf(`${index}.tar`, MODE, sizeBytes);
    yield* layerContent(layer, options);
    yield Buffer.alloc(paddingBytes(sizeBytes));
  }
  yield endOfArchive();
}

async function* layerContent(
  { path, checked }: ArchivedLayer,
  options: WriteOptions,
): AsyncGenerator<Buffer> {
  const file = await open(path, constants.O_RDONLY | constants.O_NOFOLLOW);
  try {
    yield* plainArchive(file, checked, options);
  } finally {
    await file.close();
  }
}
