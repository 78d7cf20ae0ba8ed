/** Files and directories in a session as an end of a copy. */
import { posix } from "node:path";
import type { FileEntry, Files } from "@sandkasten/sdk";
import { CliFailure } from "../failure.ts";
import type { CopySource, CopyTarget, PlacedTarget, Thing } from "./endpoint.ts";

/** As many as a kernel follows. */
const MAX_LINKS = 40;

export function sessionSource(files: Files, path: string, signal: AbortSignal): CopySource {
  let real = path;
  return {
    shown: path,
    async look(): Promise<Thing> {
      const entry = await followed(files, path, signal);
      real = entry.path;
      const name = /(^|\/)\.{1,2}\/?$/.test(path) ? "" : posix.basename(path);
      if (entry.isDir) return { kind: "directory", name };
      return {
        kind: "file",
        name,
        mode: entry.mode & 0o777,
        ...(entry.type === "file" && { sizeBytes: entry.sizeBytes }),
      };
    },
    readFile: () => files.download(real, { signal }),
    readTree: () => files.tar(real, { signal }),
  };
}

export function sessionTarget(files: Files, path: string, signal: AbortSignal): CopyTarget {
  return {
    async place(thing): Promise<PlacedTarget> {
      const existing = await followed(files, path, signal).catch((error: unknown) => {
        if (isCode(error, "FILE_NOT_FOUND")) return undefined;
        throw error;
      });
      if (existing?.isDir === false && thing.kind === "directory")
        throw new CliFailure(`${path} is a file, and a directory cannot be copied onto it.`, {
          hint: "Name a directory, or one that does not exist yet.",
        });
      const intoDirectory = existing?.isDir ?? path.endsWith("/");
      if (intoDirectory && thing.name === "" && thing.kind === "file")
        throw new CliFailure(`${path} is a directory, and what is copied has no name.`, {
          hint: "Name the file to write, as in SESSION:/workspace/data.bin.",
        });
      const target = intoDirectory ? posix.join(path, thing.name) : path;
      return {
        shown: target,
        async writeFile(content) {
          await files.write(target, content, {
            ...(thing.mode !== undefined && { mode: thing.mode }),
            signal,
          });
        },
        async writeTree(archive) {
          await files.mkdir(target, { signal });
          await files.untar(target, archive, { signal });
        },
      };
    },
  };
}

/** What a path leads to in the end: the API describes a link itself. */
async function followed(files: Files, path: string, signal: AbortSignal): Promise<FileEntry> {
  let at = path;
  for (let links = 0; links < MAX_LINKS; links++) {
    const entry = await files.stat(at, { signal });
    if (entry.type !== "symlink" || entry.target === undefined) return entry;
    at = posix.resolve(posix.dirname(entry.path), entry.target);
  }
  throw new CliFailure(`${path} is a chain of links without an end.`, {
    hint: "Name the file itself.",
  });
}

function isCode(error: unknown, code: string): boolean {
  return error instanceof Error && "code" in error && error.code === code;
}
