/** What calls about files take and return. */
import type { CallOptions } from "./call-options.ts";
import type { ByteRange } from "./file-types.ts";
import type { WithSnakeNames } from "./snake-names.ts";

interface ReadFileOptionFields extends CallOptions {
  /** At most this many bytes from the beginning. The whole file by default. */
  readonly maxBytes?: number | undefined;
  /**
   * Called with the file's real path, without links, before its bytes are returned; if it throws,
   * so does the call. Not called for an empty file.
   */
  readonly onRealPath?: ((path: string) => void) | undefined;
}

/** Options for reading a file. */
export type ReadFileOptions = WithSnakeNames<ReadFileOptionFields>;

interface WriteFileOptionFields extends CallOptions {
  /** Permission bits, as in `chmod`: `0o755`. */
  readonly mode?: number | undefined;
  /** false refuses to replace a file. */
  readonly overwrite?: boolean | undefined;
  /** The `etag` that the file must still have; `FILE_CHANGED` otherwise. */
  readonly ifMatch?: string | undefined;
}

/** Options for writing a file. */
export type WriteFileOptions = WithSnakeNames<WriteFileOptionFields>;

/** Options for appending to a file. */
export type AppendFileOptions = Omit<WriteFileOptions, "overwrite">;

interface DownloadOptionFields extends CallOptions {
  readonly range?: ByteRange | undefined;
  /**
   * Called with the file's real path, without links, before the stream is returned; if it throws,
   * so does the call.
   */
  readonly onRealPath?: ((path: string) => void) | undefined;
}

/** Which part of a file to download. */
export type DownloadOptions = WithSnakeNames<DownloadOptionFields>;

/** Whether to describe a link or its target. */
export interface StatOptions extends CallOptions {
  /** true describes the target of a link. */
  readonly follow?: boolean | undefined;
}

/** Whether to go into directories. */
export interface RecursiveOptions extends CallOptions {
  readonly recursive?: boolean | undefined;
}

/** Options for creating a directory. */
export interface MakeDirectoryOptions extends CallOptions {
  readonly mode?: number | undefined;
  /** false does not create parent directories. */
  readonly parents?: boolean | undefined;
}

/** Options for moving a file. */
export interface MoveOptions extends CallOptions {
  /** true replaces an existing target. */
  readonly overwrite?: boolean | undefined;
}

/** Options for copying a file or directory. */
export interface CopyOptions extends MoveOptions {
  /** true copies a directory with everything below it. */
  readonly recursive?: boolean | undefined;
}

interface TarOptionFields extends CallOptions {
  /** Entries to leave out: patterns as in a `.gitignore`, without `!`. */
  readonly exclude?: readonly string[] | undefined;
  /** Whether unreadable entries fail the call (the default) or are skipped. */
  readonly onUnreadable?: "fail" | "skip" | undefined;
  /** Called with the number of skipped entries and the first of their paths. */
  readonly onSkipped?: ((count: number, paths: readonly string[]) => void) | undefined;
}

/** Options for creating an archive. */
export type TarOptions = WithSnakeNames<TarOptionFields>;

interface WrittenFileFields {
  readonly path: string;
  /** base64 of a path that is not UTF-8. */
  readonly rawPath?: string | undefined;
  /** Size of the whole file. */
  readonly sizeBytes: number;
  /** Changes whenever the content does; see `ifMatch`. */
  readonly etag: string;
}

/** A file that was written. */
export type WrittenFile = WithSnakeNames<WrittenFileFields>;

interface CopiedFilesFields {
  readonly path: string;
  readonly rawPath?: string | undefined;
  readonly entries: number;
  readonly bytes: number;
  /** How many pipes, sockets and devices were not copied. */
  readonly skipped: number;
}

/** What was copied. */
export type CopiedFiles = WithSnakeNames<CopiedFilesFields>;

/** What an archive was unpacked to. */
export interface ExtractedArchive {
  readonly entries: number;
  readonly bytes: number;
}
