/** Files and their changes in the SDK. */
import type { FileChangeBody, FileEntryBody } from "@sandkasten/protocol";
import { camelKeys } from "./camel-keys.ts";
import { type NamedPath, toNamedPath } from "./sandbox-path.ts";
import { type WithSnakeNames, withSnakeNames } from "./snake-names.ts";
import type { FileChangeKind, FileType } from "./wire-names.ts";

interface FileEntryFields {
  readonly path: string;
  readonly name: string;
  readonly type: FileType;
  readonly isDir: boolean;
  readonly sizeBytes: number;
  /** Permission bits, as in `chmod`. */
  readonly mode: number;
  /** When it was changed, in seconds since 1970. */
  readonly mtimeUnix: number;
  readonly uid: number;
  readonly gid: number;
  /** Where a link points. */
  readonly target?: string | undefined;
  /** base64 of a path that is not UTF-8. Pass the entry itself to other calls to use it. */
  readonly rawPath?: string | undefined;
  /** Changes whenever the content does; see `ifMatch`. */
  readonly etag: string;
  /** true for an unreadable directory: a recursive list omits its contents. */
  readonly unreadable?: true | undefined;
}

/** A file, directory or link in a sandbox. */
export type FileEntry = WithSnakeNames<FileEntryFields>;

/** A change of a file. */
export type FileChange = NamedPath & { readonly kind: FileChangeKind };

/** A stream of bytes. It can only be sent once, so a failure is not retried. */
export type ByteStream = ReadableStream<Uint8Array> | AsyncIterable<Uint8Array>;

/** Content to send to the daemon. */
export type FileSource = string | Uint8Array | ArrayBuffer | Blob | ByteStream;

/** Part of a file. */
export interface ByteRange {
  /** The first byte. 0 by default. */
  readonly start?: number | undefined;
  /** The byte after the last. The end of the file by default. */
  readonly end?: number | undefined;
}

export function toFileEntry(body: FileEntryBody): FileEntry {
  const { size: _, ...rest } = body;
  return withSnakeNames(camelKeys(rest));
}

export function toFileChange(body: FileChangeBody): FileChange {
  return Object.assign(toNamedPath(body), { kind: body.kind });
}
