/** Writes a file for a tool, within the agent's limits. */
import type { Session, WriteFileOptions, WrittenFile } from "@sandkasten/sdk";
import { requireUnblockedTarget, sandboxPath } from "../sandbox-paths.ts";
import type { HeldSession } from "../scope/held-session.ts";
import { ToolError } from "../tool-error.ts";
import type { CodeSandbox } from "./code-sandbox.ts";

export interface FileToWrite {
  readonly sandbox: CodeSandbox;
  readonly session: Session;
  readonly held: HeldSession;
  readonly path: string;
  readonly bytes: Uint8Array;
}

export async function writeFile(
  file: FileToWrite,
  options: WriteFileOptions & { readonly signal: AbortSignal | undefined },
): Promise<WrittenFile> {
  const { sandbox, session, held, bytes } = file;
  const { maxFileSizeBytes, maxFiles } = sandbox.settings.limits;
  const path = sandboxPath(file.path);
  if (bytes.length > maxFileSizeBytes)
    throw new ToolError(
      "LIMIT_EXCEEDED",
      `The file has ${bytes.length} bytes, and files may have ${maxFileSizeBytes} here (limits.max_file_size_bytes). Split it, or let a command in the sandbox make it.`,
    );
  // Counted before the first await, so that concurrent calls cannot exceed the limit together.
  const isNew = !held.writtenFiles.has(path);
  if (isNew && held.writtenFiles.size >= maxFiles)
    throw new ToolError(
      "LIMIT_EXCEEDED",
      `The file tools have written ${maxFiles} files in this sandbox, which is the limit (limits.max_files). Delete files that are not needed with sandbox_fs_delete.`,
    );
  held.writtenFiles.add(path);
  try {
    // SECURITY: an ordinary user cannot write to blocked paths, whatever a link says; root can.
    if (session.profile === "root") await requireUnblockedTarget(session, path, options.signal);
    return await session.files.write(path, bytes, options);
  } catch (error) {
    if (isNew) held.writtenFiles.delete(path);
    throw error;
  }
}
