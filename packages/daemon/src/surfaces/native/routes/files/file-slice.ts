/** Opens a file, or the requested part of it. */
import type { IncomingHttpHeaders } from "node:http";
import type { FileRead, SandboxPath } from "../../../../ports/channel.ts";
import type { FileOperations } from "../../../../sessions/services/file-service.ts";
import { parseRange } from "../../../http/bodies/byte-range.ts";

export interface FileSlice {
  readonly read: FileRead;
  /** Absent if the whole file is to be sent. */
  readonly range?: { readonly first: number; readonly length: number };
}

interface Wanted {
  readonly offset: number;
  readonly length?: number;
}

/** Distinguishes versions of a file. */
export function etagOf({ version }: FileRead): string {
  return `"${version.replaceAll(/[^\x21\x23-\x7e]/g, "_")}"`;
}

/** A file's metadata without its bytes. */
export async function peek(files: FileOperations, path: SandboxPath): Promise<FileRead> {
  const read = await files.readFile(path, { length: 0 });
  await read.body.cancel();
  return read;
}

/** A range that begins beyond the end has length 0. */
export async function openSlice(
  files: FileOperations,
  path: SandboxPath,
  { headers, realPath }: { readonly headers: IncomingHttpHeaders; readonly realPath: boolean },
): Promise<FileSlice> {
  const ifRange = headers["if-range"];
  const wanted = await wantedPart(files, path, headers);
  if (wanted === undefined) return { read: await files.readFile(path, { realPath }) };
  const read = await files.readFile(path, { ...wanted, realPath });
  if (typeof ifRange === "string" && ifRange !== etagOf(read)) {
    // It was replaced since it was checked: a part of it would not match what the client has.
    await read.body.cancel();
    return { read: await files.readFile(path, { realPath }) };
  }
  const rest = Math.max(0, read.size - wanted.offset);
  return { read, range: { first: wanted.offset, length: Math.min(wanted.length ?? rest, rest) } };
}

async function wantedPart(
  files: FileOperations,
  path: SandboxPath,
  headers: IncomingHttpHeaders,
): Promise<Wanted | undefined> {
  const range = parseRange(headers.range);
  if (range === undefined) return undefined;
  const ifRange = headers["if-range"];
  if (ifRange !== undefined && ifRange !== etagOf(await peek(files, path))) return undefined;
  if ("suffix" in range) {
    const { size } = await peek(files, path);
    return { offset: range.suffix === 0 ? size : Math.max(0, size - range.suffix) };
  }
  const { first, last } = range;
  return { offset: first, ...(last !== undefined && { length: last - first + 1 }) };
}
