/** Local files and directories as an end of a copy. */
import { randomUUID } from "node:crypto";
import { createReadStream, createWriteStream } from "node:fs";
import { chmod, rename, rm, stat } from "node:fs/promises";
import { basename, dirname, join, resolve } from "node:path";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { makeDirectory } from "@sandkasten/daemon/make-directory";
import { CliFailure } from "../failure.ts";
import { HINT_OF_COPIES, localFailure } from "../local-failure.ts";
import type { CopySource, CopyTarget, PlacedTarget, Thing } from "./endpoint.ts";
import { contentBytes, packDirectory } from "./tar-pack.ts";
import { unpackArchive } from "./tar-unpack.ts";

export function localSource(given: string, workingDirectory: string): CopySource {
  const path = resolve(workingDirectory, given);
  return {
    shown: given,
    async look(): Promise<Thing> {
      const found = await stat(path).catch((cause: NodeJS.ErrnoException) => {
        throw localFailure(given, cause, HINT_OF_COPIES);
      });
      // `dir/.` means its contents, and so does a name without meaning, like `..`.
      const name = /(^|\/)\.{1,2}\/?$/.test(given) ? "" : basename(path);
      if (found.isDirectory())
        return { kind: "directory", name, sizeBytes: await contentBytes(path) };
      const mode = found.mode & 0o777;
      return { kind: "file", name, mode, ...(found.isFile() && { sizeBytes: found.size }) };
    },
    readFile: () => createReadStream(path),
    readTree: () => packDirectory(path),
  };
}

export function localTarget(given: string, workingDirectory: string): CopyTarget {
  const path = resolve(workingDirectory, given);
  return {
    async place(thing): Promise<PlacedTarget> {
      const found = await stat(path).catch((cause: NodeJS.ErrnoException) => {
        if (cause.code === "ENOENT") return undefined;
        throw localFailure(given, cause, HINT_OF_COPIES);
      });
      const intoDirectory = found?.isDirectory() ?? given.endsWith("/");
      const target = intoDirectory ? join(path, thing.name) : path;
      if (found?.isDirectory() === false && thing.kind === "directory")
        throw new CliFailure(`${given} is a file, and a directory cannot be copied onto it.`, {
          hint: "Name a directory, or one that does not exist yet.",
        });
      return {
        shown: intoDirectory ? join(given, thing.name) : given,
        writeFile: (content) => writeWhole(target, content, thing.mode),
        writeTree: async (archive) => {
          await unpackArchive(archive, target);
        },
      };
    },
  };
}

/** Writes a temporary file first, so an aborted copy leaves the existing file intact. */
async function writeWhole(
  target: string,
  content: AsyncIterable<Uint8Array>,
  mode: number | undefined,
): Promise<void> {
  const existing = await stat(target).catch(() => undefined);
  if (existing !== undefined && !existing.isFile()) {
    // A device or a pipe, like /dev/null, is written to, not replaced.
    await pipeline(Readable.from(content), createWriteStream(target));
    return;
  }
  await makeDirectory(dirname(target), 0o777);
  const temporary = join(dirname(target), `.${basename(target)}.${randomUUID()}`);
  try {
    const made = { flags: "wx", ...(mode !== undefined && { mode }) };
    await pipeline(Readable.from(content), createWriteStream(temporary, made));
    // A replaced file keeps its permissions.
    if (existing !== undefined) await chmod(temporary, existing.mode & 0o777);
    await rename(temporary, target);
  } finally {
    await rm(temporary, { force: true });
  }
}
