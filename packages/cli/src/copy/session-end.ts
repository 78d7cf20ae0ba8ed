/** Files and directories of a session as an end of a copy. */
import { posix } from "node:path";
import type { Files, SandboxPath } from "@sandkasten/sdk";
import { CliFailure } from "../failure.ts";
import type { CopySource, CopyTarget, PlacedTarget, Thing } from "./endpoint.ts";

export function sessionSource(files: Files, path: string, signal: AbortSignal): CopySource {
  let real: SandboxPath = path;
  return {
    shown: path,
    async look(): Promise<Thing> {
      const entry = await files.stat(path, { follow: true, signal });
      // An archive of a link would contain only the link.
      if (entry.isDir) real = await files.realpath(path, { signal });
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
      const looking = files.stat(path, { follow: true, signal });
      const existing = await looking.catch((error: unknown) => {
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

function isCode(error: unknown, code: string): boolean {
  return error instanceof Error && "code" in error && error.code === code;
}
