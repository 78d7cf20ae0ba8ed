/** Converts files between the core's terms and the API's. */
import { SandboxError } from "@sandkasten/protocol";
import type { FileEntry, FileEntryBody, WriteFileBody } from "@sandkasten/protocol";
import type { WrittenFile } from "../../../ports/channel.ts";
import { pathBody } from "./path-body.ts";

export function fileEntryBody(entry: FileEntry): FileEntryBody {
  return {
    ...pathBody(entry),
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
    etag: entry.version,
    ...(entry.unreadable !== undefined && { unreadable: entry.unreadable }),
  };
}

export function writtenFileBody(written: WrittenFile): {
  ok: true;
  path: string;
  raw_path?: string;
  size: number;
  size_bytes: number;
  etag: string;
} {
  const { size, version } = written;
  return { ok: true, ...pathBody(written), size, size_bytes: size, etag: version };
}

/** An ETag with quotes, or without them as in response bodies. */
export function versionOf(etag: string): string {
  return etag.replace(/^"(.*)"$/, "$1");
}

/** The content of a write request. Clients with zero values send `""` for the other field. */
export function contentOf(body: WriteFileBody): Uint8Array {
  const given = [
    body.text === undefined ? undefined : Buffer.from(body.text),
    body.contents === undefined ? undefined : Buffer.from(body.contents),
    decoded(body.content_base64),
    decoded(body.contents_b64),
  ].filter((content) => content !== undefined);
  const [content = given[0], ...more] = given.filter(({ byteLength }) => byteLength > 0);
  if (content === undefined)
    throw new SandboxError(
      "INVALID_REQUEST",
      'the request has no content; pass `text` or `content_base64`, which can be ""',
    );
  if (more.length > 0)
    throw new SandboxError(
      "INVALID_REQUEST",
      "the content is given twice; pass either `text` or `content_base64`",
    );
  return content;
}

function decoded(base64: string | undefined): Buffer | undefined {
  return base64 === undefined ? undefined : Buffer.from(base64, "base64");
}
