/** The files of a session or of a workspace. */
import type { FileEntryBody } from "@sandkasten/protocol";
import type { CallOptions } from "./call-options.ts";
import {
  type ByteRange,
  type FileChange,
  type FileEntry,
  type FileSource,
  toFileEntry,
} from "./file-types.ts";
import { readBytes } from "./response-body.ts";
import { SandboxError } from "./sandbox-error.ts";
import { camelOptions, type WithSnakeNames, withSnakeNames } from "./snake-names.ts";
import type { Call, Transport } from "./transport.ts";
import { watchFiles } from "./watch-files.ts";
import type { ExtractedBody, FileListBody, UploadedBody, WrittenFileBody } from "./wire-bodies.ts";

interface ReadFileOptionFields extends CallOptions {
  /** At most its first so many bytes; all of them when absent. */
  readonly maxBytes?: number | undefined;
}

/** How a file shall be read. */
export type ReadFileOptions = WithSnakeNames<ReadFileOptionFields>;

/** How a file shall be written. */
export interface WriteFileOptions extends CallOptions {
  /** Permission bits, as in `chmod`: `0o755`. */
  readonly mode?: number | undefined;
  /** false refuses to replace a file. */
  readonly overwrite?: boolean | undefined;
}

/** Which part of a file to download. */
export interface DownloadOptions extends CallOptions {
  readonly range?: ByteRange | undefined;
}

/** Whether to go into directories. */
export interface RecursiveOptions extends CallOptions {
  readonly recursive?: boolean | undefined;
}

/** How a directory shall be made. */
export interface MakeDirectoryOptions extends CallOptions {
  readonly mode?: number | undefined;
  /** false refuses to make the directories above it, too. */
  readonly parents?: boolean | undefined;
}

/** How a file shall be moved. */
export interface MoveOptions extends CallOptions {
  /** true replaces what is there. */
  readonly overwrite?: boolean | undefined;
}

interface WrittenFileFields {
  readonly path: string;
  readonly sizeBytes: number;
}

/** A file that was written. */
export type WrittenFile = WithSnakeNames<WrittenFileFields>;

/** What an archive was unpacked to. */
export interface ExtractedArchive {
  readonly entries: number;
  readonly bytes: number;
}

/** Files in a sandbox. Paths that are not absolute start at /workspace. */
export class Files {
  readonly #transport: Transport;
  readonly #base: string;

  /** @internal */
  constructor(transport: Transport, base: string) {
    this.#transport = transport;
    this.#base = base;
  }

  /** A file's bytes. */
  async read(path: string, options: ReadFileOptions = {}): Promise<Uint8Array> {
    const { maxBytes, signal } = camelOptions(options);
    const whole = this.#file("GET", path, signal);
    if (maxBytes === undefined) return this.#bytes(whole);
    try {
      // One byte at least: a range cannot be empty.
      const range = rangeHeader({ end: Math.max(1, maxBytes) });
      return (await this.#bytes({ ...whole, headers: range })).subarray(0, maxBytes);
    } catch (error) {
      // No range fits into an empty file.
      if (error instanceof SandboxError && error.status === 416) return new Uint8Array();
      throw error;
    }
  }

  /** A file's text, which must be UTF-8; what is not is replaced. */
  async readText(path: string, options: ReadFileOptions = {}): Promise<string> {
    return new TextDecoder("utf-8", { ignoreBOM: true }).decode(await this.read(path, options));
  }

  /** Writes a file whole: whoever reads it meanwhile sees the old content or the new. */
  async write(
    path: string,
    content: FileSource,
    options: WriteFileOptions = {},
  ): Promise<WrittenFile> {
    const { mode, overwrite, signal } = options;
    const written = await this.#transport.json<WrittenFileBody>({
      ...this.#file("PUT", path, signal),
      query: { path, mode: mode?.toString(8).padStart(3, "0"), overwrite },
      body: content,
      // When the answer is lost, the file that a second try finds may be the first try's.
      ...(overwrite === false ? { repeatable: false } : {}),
    });
    return withSnakeNames({ path: written.path, sizeBytes: written.size_bytes });
  }

  /** Writes a file from a Blob or a stream; the same as `write`. */
  upload(path: string, source: FileSource, options: WriteFileOptions = {}): Promise<WrittenFile> {
    return this.write(path, source, options);
  }

  /** Writes several files, with the names they have, into one directory. Answers their paths. */
  async uploadAll(
    directory: string,
    files: Iterable<File>,
    options: CallOptions = {},
  ): Promise<readonly string[]> {
    const form = new FormData();
    for (const file of files) form.append("files", file, file.name);
    const { paths } = await this.#transport.json<UploadedBody>({
      method: "POST",
      path: `${this.#base}/fs/upload`,
      query: { path: directory },
      body: form,
      signal: options.signal,
    });
    return paths;
  }

  /** A file's bytes as they come. A connection that breaks fails the stream. */
  async download(path: string, options: DownloadOptions = {}): Promise<ReadableStream<Uint8Array>> {
    const { range, signal } = options;
    return this.#stream({
      ...this.#file("GET", path, signal),
      ...(range === undefined ? {} : { headers: rangeHeader(range) }),
    });
  }

  /** What a path leads to. A link is described itself. */
  async stat(path: string, options: CallOptions = {}): Promise<FileEntry> {
    const entry = await this.#transport.json<FileEntryBody>({
      method: "GET",
      path: `${this.#base}/fs/stat`,
      query: { path },
      signal: options.signal,
    });
    return toFileEntry(entry);
  }

  /** What a directory contains, page by page as it is asked for. */
  async *list(
    path?: string,
    options: RecursiveOptions = {},
  ): AsyncGenerator<FileEntry, void, undefined> {
    let cursor: string | undefined;
    do {
      const page: FileListBody = await this.#transport.json<FileListBody>({
        method: "GET",
        path: `${this.#base}/fs`,
        query: { path, recursive: options.recursive, cursor },
        signal: options.signal,
      });
      yield* page.entries.map(toFileEntry);
      cursor = page.next_cursor;
    } while (cursor !== undefined);
  }

  /** Makes a directory, and those above it. */
  async mkdir(path: string, options: MakeDirectoryOptions = {}): Promise<void> {
    const { mode, parents, signal } = options;
    await this.#post("mkdir", { path, mode, parents }, signal);
  }

  /** Moves a file or directory. */
  async move(from: string, to: string, options: MoveOptions = {}): Promise<void> {
    await this.#post("move", { from, to, overwrite: options.overwrite }, options.signal);
  }

  /** Removes a file, or a directory; one that is not empty only when `recursive`. */
  async remove(path: string, options: RecursiveOptions = {}): Promise<void> {
    await this.#transport.json({
      method: "DELETE",
      path: `${this.#base}/fs`,
      query: { path, recursive: options.recursive },
      doneWhenRepeated: "FILE_NOT_FOUND",
      signal: options.signal,
    });
  }

  /**
   * Changes as they happen, until the loop is left or the signal ends it. After a connection that
   * broke there is one of the kind `overflow`: something may have been missed.
   */
  watch(
    path?: string,
    options: RecursiveOptions = {},
  ): AsyncGenerator<FileChange, void, undefined> {
    const call: Call = {
      method: "GET",
      path: `${this.#base}/fs/watch`,
      query: { path, recursive: options.recursive },
      waits: true,
      signal: options.signal,
    };
    return watchFiles(this.#transport, call, path ?? "/workspace");
  }

  /** A directory as a tar archive. */
  tar(path?: string, options: CallOptions = {}): Promise<ReadableStream<Uint8Array>> {
    return this.#stream({
      method: "GET",
      path: `${this.#base}/fs/tar`,
      query: { path },
      signal: options.signal,
    });
  }

  /** Unpacks a tar archive into a directory. */
  async untar(
    path: string | undefined,
    archive: FileSource,
    options: CallOptions = {},
  ): Promise<ExtractedArchive> {
    const { entries, bytes } = await this.#transport.json<ExtractedBody>({
      method: "PUT",
      path: `${this.#base}/fs/tar`,
      query: { path },
      body: archive,
      signal: options.signal,
    });
    return { entries, bytes };
  }

  #file(method: "GET" | "PUT", path: string, signal: AbortSignal | undefined): Call {
    return { method, path: `${this.#base}/fs/file`, query: { path }, signal };
  }

  #bytes(call: Call): Promise<Uint8Array> {
    return this.#transport.send(
      { ...call, large: true },
      async (response) => new Uint8Array(await response.arrayBuffer()),
    );
  }

  async #stream(call: Call): Promise<ReadableStream<Uint8Array>> {
    const what = `${call.method} ${call.path}`;
    return readBytes(await this.#transport.open(call), { what, signal: call.signal });
  }

  async #post(name: string, json: unknown, signal: AbortSignal | undefined): Promise<void> {
    await this.#transport.json({
      method: "POST",
      path: `${this.#base}/fs/${name}`,
      json,
      signal,
    });
  }
}

/** HTTP names the last byte, the SDK the one after it, as everywhere in JavaScript. */
function rangeHeader({ start = 0, end }: ByteRange): { readonly range: string } {
  return { range: `bytes=${start}-${end === undefined ? "" : end - 1}` };
}
