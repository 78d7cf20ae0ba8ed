/** Writes or appends to a file, as requested. */
import { SandboxError } from "@sandkasten/protocol";
import type { ByteSource, SandboxPath, WrittenFile } from "../../../../ports/channel.ts";
import type { FileOperations } from "../../../../sessions/services/file-service.ts";
import { versionOf } from "../../bodies/file-body.ts";

interface Asked {
  readonly mode?: number | undefined;
  readonly overwrite?: boolean | undefined;
  readonly append?: boolean | undefined;
  readonly if_match?: string | undefined;
}

export async function writeFile(
  files: FileOperations,
  path: SandboxPath,
  content: ByteSource,
  { mode, overwrite, append = false, if_match: etag }: Asked,
): Promise<WrittenFile> {
  const options = {
    ...(mode !== undefined && { mode }),
    ...(etag !== undefined && { ifVersion: versionOf(etag) }),
  };
  if (!append)
    return await files.writeFile(path, content, {
      ...options,
      ...(overwrite !== undefined && { overwrite }),
    });
  if (overwrite === false)
    throw new SandboxError(
      "INVALID_REQUEST",
      "`append` changes an existing file, which `overwrite: false` forbids; omit one of them",
    );
  return await files.appendFile(path, content, options);
}
