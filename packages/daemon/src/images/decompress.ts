/** Reads a file that may be compressed (gzip, zstd, xz) and yields its decompressed bytes. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import type { FileHandle } from "node:fs/promises";
import { pipeline, Readable } from "node:stream";
import { createGunzip, createZstdDecompress } from "node:zlib";
import { truncated } from "../tar/tar-error.ts";
import { invalidArchive } from "./image-archive.ts";
import { invalidImage } from "./image-failure.ts";
import { systemCode } from "../system-errors.ts";

const READ_CHUNK_BYTES = 128 * 1024;
const OUTPUT_CHUNK_BYTES = 128 * 1024;
const XZ_MEMORY_LIMIT = "512MiB";
const STDERR_CHARS = 500;
const NOBODY = 65534;

export interface DecompressOptions {
  /** Path of the `xz` program. */
  readonly xz: string;
  /** Called with the number of bytes read from the file. */
  readonly onRead?: (bytes: number) => void;
}

/** The content of an open regular file, decompressed according to its first bytes. */
export async function* decompress(
  file: FileHandle,
  options: DecompressOptions,
): AsyncGenerator<Buffer> {
  const magic = await readAt(file, 0, 6);
  if (magic.subarray(0, 2).equals(Buffer.from([0x1f, 0x8b]))) {
    yield* through(file, 0, createGunzip({ chunkSize: OUTPUT_CHUNK_BYTES }), options);
  } else if (isZstd(magic)) {
    yield* zstdFrames(file, options);
  } else if (magic.equals(Buffer.from([0xfd, 0x37, 0x7a, 0x58, 0x5a, 0x00]))) {
    yield* throughXz(file, options);
  } else {
    yield* readFrom(file, 0, options);
  }
}

/** Reads an open file from an offset to its end, independent of its current position. */
export async function* readFrom(
  file: FileHandle,
  offset: number,
  options: Pick<DecompressOptions, "onRead"> = {},
): AsyncGenerator<Buffer> {
  for (let at = offset; ;) {
    const chunk = await readAt(file, at, READ_CHUNK_BYTES);
    if (chunk.length === 0) return;
    at += chunk.length;
    options.onRead?.(chunk.length);
    yield chunk;
  }
}

async function readAt(file: FileHandle, offset: number, length: number): Promise<Buffer> {
  const { bytesRead, buffer } = await file.read(Buffer.allocUnsafe(length), 0, length, offset);
  return buffer.subarray(0, bytesRead);
}

type Decoder = ReturnType<typeof createGunzip> | ReturnType<typeof createZstdDecompress>;

async function* through(
  file: FileHandle,
  offset: number,
  decoder: Decoder,
  options: DecompressOptions,
): AsyncGenerator<Buffer> {
  const source = Readable.from(readFrom(file, offset, options));
  // An error reaches the loop below through the decoder.
  pipeline(source, decoder, () => undefined);
  try {
    for await (const chunk of decoder) yield chunk;
  } catch (cause) {
    throw systemCode(cause) === "Z_BUF_ERROR"
      ? invalidArchive(truncated())
      : invalidImage("The archive is damaged: it cannot be decompressed.", { cause });
  } finally {
    source.destroy();
    decoder.destroy();
  }
}

function isZstd(magic: Buffer): boolean {
  if (magic.length < 4) return false;
  const word = magic.readUInt32LE(0);
  return word === 0xfd2fb528 || isSkippable(word);
}

function isSkippable(word: number): boolean {
  return word >>> 4 === 0x184d2a5;
}

/**
 * Node's decoder stops after one frame, and zstd files may have many: each is read from where the
 * previous one ended.
 */
async function* zstdFrames(file: FileHandle, options: DecompressOptions): AsyncGenerator<Buffer> {
  let readBytes = 0;
  const report = (offset: number): void => {
    if (offset > readBytes) options.onRead?.(offset - readBytes);
    readBytes = Math.max(readBytes, offset);
  };
  for (let offset = 0; ;) {
    const head = await readAt(file, offset, 8);
    if (head.length === 0) return;
    if (!isZstd(head))
      throw invalidImage("The archive is damaged: unknown data follows its zstd data.");
    if (isSkippable(head.readUInt32LE(0))) {
      if (head.length < 8) throw invalidArchive(truncated());
      offset += 8 + head.readUInt32LE(4);
    } else {
      const decoder = createZstdDecompress({ chunkSize: OUTPUT_CHUNK_BYTES });
      const start = offset;
      const frame = through(file, offset, decoder, { xz: options.xz });
      for await (const chunk of frame) {
        report(start + decoder.bytesWritten);
        yield chunk;
      }
      offset += decoder.bytesWritten;
    }
    report(offset);
  }
}

/**
 * SECURITY: hostile bytes reach a C decoder here, so it runs as the user nobody, without
 * environment, with a memory limit, and can only write to our pipe (threat: hostile archives and
 * images). Guarded by decompress.test.ts.
 */
async function* throughXz(file: FileHandle, options: DecompressOptions): AsyncGenerator<Buffer> {
  const isRoot = process.geteuid?.() === 0;
  const child = spawn(
    options.xz,
    ["--decompress", "--stdout", `--memlimit-decompress=${XZ_MEMORY_LIMIT}`],
    {
      stdio: ["pipe", "pipe", "pipe"],
      env: {},
      cwd: "/",
      ...(isRoot ? { uid: NOBODY, gid: NOBODY } : {}),
    },
  );
  let complaint = "";
  child.stderr.setEncoding("utf8").on("data", (text: string) => {
    complaint = (complaint + text).slice(0, STDERR_CHARS);
  });
  const closed = once(child, "close").then(
    ([code]: unknown[]) => ({ code, error: undefined }),
    (error: unknown) => ({ code: undefined, error }),
  );
  const source = Readable.from(readFrom(file, 0, options));
  // A decoder that stops early breaks this pipe; its exit status gives the reason.
  pipeline(source, child.stdin, () => undefined);
  try {
    for await (const chunk of child.stdout) yield chunk as Buffer;
    const { code, error } = await closed;
    if (error !== undefined) {
      throw invalidImage(
        `The archive is compressed with xz, but ${options.xz} cannot be run. Install xz-utils.`,
        {
          cause: error,
        },
      );
    }
    if (code !== 0) {
      throw invalidImage(
        `The archive is damaged: xz reported ${JSON.stringify(complaint.trim())}.`,
      );
    }
  } finally {
    source.destroy();
    child.kill("SIGKILL");
    await closed;
  }
}
