/** Copies the entries of an OpenAI Agents SDK manifest into a sandbox. */
import { readdir, readFile } from "node:fs/promises";
import { join, posix } from "node:path";
import {
  type Entry,
  permissionsForSandboxEntry,
  SandboxUnsupportedFeatureError,
} from "@openai/agents-core/sandbox";
import type { Files } from "@sandkasten/sdk";

/** Files and directories, inline or from this machine. Mounts and repositories are refused. */
export async function materialize(files: Files, path: string, entry: Entry): Promise<void> {
  const mode = modeOf(entry);
  switch (entry.type) {
    case "file":
      await files.write(path, entry.content, { mode });
      return;
    case "local_file":
      await files.write(path, await readFile(entry.src), { mode });
      return;
    case "dir":
      await files.mkdir(path);
      for (const [name, child] of Object.entries(entry.children ?? {}))
        await materialize(files, posix.join(path, name), child);
      return;
    case "local_dir":
      await copyDirectory(files, entry.src, path);
      return;
    default:
      throw new SandboxUnsupportedFeatureError(
        `Sandkasten cannot put a ${entry.type} into a sandbox. Use files and directories.`,
      );
  }
}

/** Regular files only: a link on this machine could lead out of the directory. */
async function copyDirectory(files: Files, source: string, target: string): Promise<void> {
  await files.mkdir(target);
  for (const entry of await readdir(source, { withFileTypes: true })) {
    const from = join(source, entry.name);
    const to = posix.join(target, entry.name);
    if (entry.isDirectory()) await copyDirectory(files, from, to);
    else if (entry.isFile()) await files.write(to, await readFile(from));
  }
}

/** The daemon's default permissions unless the entry sets some. */
function modeOf({ permissions }: Entry): number | undefined {
  if (permissions === undefined) return undefined;
  return permissionsForSandboxEntry(permissions).toMode() & 0o777;
}
