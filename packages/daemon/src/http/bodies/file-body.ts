/** Files between the core's terms and those of the API. */
import { SandboxError } from "@sandkasten/protocol";
import type { FileEntry, FileEntryBody, WriteFileBody } from "@sandkasten/protocol";

export const WORKSPACE = "/workspace";

export function fileEntryBody(entry: FileEntry): FileEntryBody {
  return {
    path: entry.path,
    name: entry.name,
    type: entry.type,
    is_dir: entry.type === "dir",
    size: entry.size,
    size_bytes: entry.size,
    mode: entry.mode,
    mtime_unix: entry.mtimeMs / 1000,
    uid: entry.uid,
    gid: entry.gid,
    ...(entry.target !== undefined && { target: entry.target }),
    ...(entry.rawPath !== undefined && { raw_path: entry.rawPath }),
  };
}

/** Paths that do not begin at the root begin in the workspace. */
export function absolutePath(path: string): string {
  return path.startsWith("/") ? path : `${WORKSPACE}/${path}`;
}

/** The one content that a request to write has. It may be empty, but it must be there. */
export function contentOf(body: WriteFileBody): Uint8Array {
  const given = [
    body.text === undefined ? undefined : Buffer.from(body.text),
    body.contents === undefined ? undefined : Buffer.from(body.contents),
    decoded(body.content_base64),
    decoded(body.contents_b64),
  ].filter((content) => content !== undefined);
  if (given[0] === undefined || given.length > 1)
    throw new SandboxError(
      "INVALID_REQUEST",
      `give the content exactly once, as \`text\` or as \`content_base64\`; it was given ${given.length === 0 ? "not at all" : "several times"}`,
    );
  return given[0];
}

function decoded(base64: string | undefined): Buffer | undefined {
  return base64 === undefined ? undefined : Buffer.from(base64, "base64");
}
