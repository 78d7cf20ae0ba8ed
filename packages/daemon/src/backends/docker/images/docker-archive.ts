/**
 * Writes an image in the format of `docker save`, which every engine can load.
 *
 * SECURITY: an archive is never passed on unchanged: it could name other images than the one it is
 * imported as, and the engine would overwrite them (threat: hostile archives and images).
 * Guarded by docker-imports.test.ts.
 */
import { constants } from "node:fs";
import { open } from "node:fs/promises";
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

const BLOCK_BYTES = 512;
const LARGEST_OCTAL_SIZE = 8 ** 11 - 1;

export async function* dockerArchive(
  { name, config, layers }: ArchivedImage,
  options: WriteOptions,
): AsyncGenerator<Buffer> {
  const names = layers.map((_, index) => `${index}.tar`);
  const manifest = [{ Config: "config.json", RepoTags: [name], Layers: names }];
  yield smallEntry("manifest.json", Buffer.from(JSON.stringify(manifest)));
  yield smallEntry("config.json", config);
  for (const [index, layer] of layers.entries()) {
    const { sizeBytes } = layer.checked;
    yield header(`${index}.tar`, sizeBytes);
    yield* layerContent(layer, options);
    yield padding(sizeBytes);
  }
  yield Buffer.alloc(2 * BLOCK_BYTES);
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

function smallEntry(path: string, content: Buffer): Buffer {
  return Buffer.concat([header(path, content.length), content, padding(content.length)]);
}

function padding(sizeBytes: number): Buffer {
  return Buffer.alloc((BLOCK_BYTES - (sizeBytes % BLOCK_BYTES)) % BLOCK_BYTES);
}

/** The header of a regular file owned by root. */
function header(path: string, sizeBytes: number): Buffer {
  const block = Buffer.alloc(BLOCK_BYTES);
  block.write(path, 0, "latin1");
  block.write("0000644\0", 100, "latin1");
  block.write("0000000\0", 108, "latin1");
  block.write("0000000\0", 116, "latin1");
  if (sizeBytes <= LARGEST_OCTAL_SIZE)
    block.write(`${sizeBytes.toString(8).padStart(11, "0")}\0`, 124, "latin1");
  else {
    // GNU's encoding for large numbers: the first bit, then the number in binary.
    block.writeUInt8(0x80, 124);
    block.writeBigUInt64BE(BigInt(sizeBytes), 128);
  }
  block.write("00000000000\0", 136, "latin1");
  block.write("        0", 148, "latin1");
  block.write("ustar\u000000", 257, "latin1");
  const sum = block.reduce((total, byte) => total + byte, 0);
  block.write(`${sum.toString(8).padStart(6, "0")}\0 `, 148, "latin1");
  return block;
}
