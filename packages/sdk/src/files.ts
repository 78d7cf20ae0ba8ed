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
import type {
  AppendFileOptions,
  CopiedFiles,
  CopyOptions,
  DownloadOptions,
  ExtractedArchive,
  MakeDirectoryOptions,
  MoveOptions,
  ReadFileOptions,
  RecursiveOptions,
  StatOptions,
  TarOptions,
  WriteFileOptions,
  WrittenFile,
} from "./file-options.ts";
import { readBytes } from "./response-body.ts";
import { SandboxError } from "./sandbox-error.ts";
import {
  fromAndTo,
  type NamedPath,
  pathFields,
  type SandboxPath,
  shownPath,
  toNamedPath,
} from "./sandbox-path.ts";
import { camelOptions, withSnakeNames } from "./snake-names.ts";
import type { Call, Transport } from "./transport.ts";
import { watchFiles } from "./watch-files.ts";
import type {
  CopiedFilesBody,
  ExtractedBody,
  FileListBody,
  PathBody,
  UploadedBody,
  WrittenFileBody,
} from "./wire-bodies.ts";

type OnRealPath = ReadFileOptions["onRealPath"];

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
  async read(path: SandboxPath, options: ReadFileOptions = {}): Promise<Uint8Array> {
    const { maxBytes, onRealPath, signal } = camelOptions(options);
    const whole = this.#download(path, onRealPath, signal);
    if (maxBytes === undefined) return this.#bytes(whole, onRealPath);
    try {
      // At least one byte: a range cannot be empty.
      const range = rangeHeader({ end: Math.max(1, maxBytes) });
      return (await this.#bytes({ ...whole, headers: range }, onRealPath)).subarray(0, maxBytes);
    } catch (error) {
      // No range is satisfiable in an empty file.
      if (error instanceof SandboxError && error.status === 416) return new Uint8Array();
      throw error;
    }
  }

  /** A file's text. Invalid UTF-8 is replaced. */
  async readText(path: SandboxPath, options: ReadFileOptions = {}): Promise<string> {
    return new TextDecoder("utf-8", { ignoreBOM: true }).decode(await this.read(path, options));
  }

  /** Writes a file atomically: readers see the old content or the new. */
  async write(
    path: SandboxPath,
    content: FileSource,
    options: WriteFileOptions = {},
  ): Promise<WrittenFile> {
    const { mode, overwrite, ifMatch, signal } = camelOptions(options);
    return this.#put(
      path,
      content,
      { mode: octal(mode), overwrite, if_match: ifMatch },
      {
        // If the response is lost, a retry may find the file of the first attempt.
        ...(overwrite === false || ifMatch !== undefined ? { repeatable: false } : {}),
        signal,
      },
    );
  }

  /** Appends to a file atomically; creates it if it does not exist. */
  async append(
    path: SandboxPath,
    content: FileSource,
    options: AppendFileOptions = {},
  ): Promise<WrittenFile> {
    const { mode, ifMatch, signal } = camelOptions(options);
    return this.#put(
      path,
      content,
      { mode: octal(mode), append: true, if_match: ifMatch },
      {
        // A retry would append it twice.
        repeatable: false,
        signal,
      },
    );
  }

  /** Writes a text; the same as `write`. */
  writeText(path: SandboxPath, text: string, options: WriteFileOptions = {}): Promise<WrittenFile> {
    return this.write(path, text, options);
  }

  /** Writes a file from a Blob or a stream; the same as `write`. */
  upload(
    path: SandboxPath,
    source: FileSource,
    options: WriteFileOptions = {},
  ): Promise<WrittenFile> {
    return this.write(path, source, options);
  }

  /** Uploads several files under their names into one directory. Returns their paths. */
  async uploadAll(
    directory: SandboxPath,
    files: Iterable<File>,
    options: CallOptions = {},
  ): Promise<readonly string[]> {
    const form = new FormData();
    for (const file of files) form.append("files", file, file.name);
    const { paths } = await this.#transport.json<UploadedBody>({
      method: "POST",
      path: `${this.#base}/fs/upload`,
      query: pathFields(directory),
      body: form,
      signal: options.signal,
    });
    return paths;
  }

  /** A file's bytes as a stream. A broken connection fails the stream. */
  async download(
    path: SandboxPath,
    options: DownloadOptions = {},
  ): Promise<ReadableStream<Uint8Array>> {
    const { range, onRealPath, signal } = camelOptions(options);
    const call: Call = {
      ...this.#download(path, onRealPath, signal),
      ...(range === undefined ? {} : { headers: rangeHeader(range) }),
    };
    const response = await this.#transport.open(call);
    try {
      reportRealPath(response, onRealPath);
    } catch (error) {
      await response.body?.cancel();
      throw error;
    }
    return this.#bodyOf(call, response);
  }

  /** Describes a path. A link is described itself, unless `follow` is set. */
  async stat(path: SandboxPath, options: StatOptions = {}): Promise<FileEntry> {
    const entry = await this.#transport.json<FileEntryBody>({
      method: "GET",
      path: `${this.#base}/fs/stat`,
      query: { ...pathFields(path), follow: options.follow },
      signal: options.signal,
    });
    return toFileEntry(entry);
  }

  /** The absolute path without links, `.` and `..`. */
  async realpath(path: SandboxPath, options: CallOptions = {}): Promise<NamedPath> {
    const body = await this.#transport.json<PathBody>({
      method: "GET",
      path: `${this.#base}/fs/realpath`,
      query: pathFields(path),
      signal: options.signal,
    });
    return toNamedPath(body);
  }

  /** A directory's contents, loading pages as needed. */
  async *list(
    path?: SandboxPath,
    options: RecursiveOptions = {},
  ): AsyncGenerator<FileEntry, void, undefined> {
    let cursor: string | undefined;
    do {
      const page: FileListBody = await this.#transport.json<FileListBody>({
        method: "GET",
        path: `${this.#base}/fs`,
        query: { ...pathFields(path), recursive: options.recursive, cursor },
        signal: options.signal,
      });
      yield* page.entries.map(toFileEntry);
      cursor = page.next_cursor;
    } while (cursor !== undefined);
  }

  /** Creates a directory and its parents. */
  async mkdir(path: SandboxPath, options: MakeDirectoryOptions = {}): Promise<void> {
    const { mode, parents, signal } = options;
    await this.#post("mkdir", { ...pathFields(path), mode, parents }, signal);
  }

  /** Moves a file or directory. */
  async move(from: SandboxPath, to: SandboxPath, options: MoveOptions = {}): Promise<void> {
    const { overwrite, signal } = options;
    await this.#post("move", { ...fromAndTo(from, to), overwrite }, signal);
  }

  /**
   * Copies a file, or with `recursive` a directory. Modes are kept, links are copied as links, and
   * the copy appears under its name only when it is complete.
   */
  async copy(from: SandboxPath, to: SandboxPath, options: CopyOptions = {}): Promise<CopiedFiles> {
    const { overwrite, recursive, signal } = options;
    const json = { ...fromAndTo(from, to), overwrite, recursive };
    const body = await this.#post<CopiedFilesBody>("copy", json, signal, true);
    const { entries, bytes, skipped } = body;
    return Object.assign(toNamedPath(body), { entries, bytes, skipped });
  }

  /** Removes a file, or a directory; a non-empty one only with `recursive`. */
  async remove(path: SandboxPath, options: RecursiveOptions = {}): Promise<void> {
    await this.#transport.json({
      method: "DELETE",
      path: `${this.#base}/fs`,
      query: { ...pathFields(path), recursive: options.recursive },
      doneWhenRepeated: "FILE_NOT_FOUND",
      signal: options.signal,
    });
  }

  /**
   * Changes as they happen, until the loop is left or the signal aborts it. After a broken
   * connection there is a change of the kind `overflow`: changes may have been missed.
   */
  watch(
    path?: SandboxPath,
    options: RecursiveOptions = {},
  ): AsyncGenerator<FileChange, void, undefined> {
    const call: Call = {
      method: "GET",
      path: `${this.#base}/fs/watch`,
      query: { ...pathFields(path), recursive: options.recursive },
      waits: true,
      signal: options.signal,
    };
    return watchFiles(this.#transport, call, shownPath(path ?? "/workspace"));
  }

  /**
   * A directory as a tar archive. Unreadable entries fail the call before there is a stream, or are
   * skipped; a stream that ends is complete.
   */
  async tar(path?: SandboxPath, options: TarOptions = {}): Promise<ReadableStream<Uint8Array>> {
    const { exclude, onUnreadable, onSkipped, signal } = camelOptions(options);
    const call: Call = {
      method: "GET",
      path: `${this.#base}/fs/tar`,
      query: { ...pathFields(path), exclude, on_unreadable: onUnreadable },
      // A large tree is scanned before the response begins.
      large: true,
      signal,
    };
    const response = await this.#transport.open(call);
    const skipped = Number(response.headers.get("x-sandkasten-unreadable") ?? 0);
    if (skipped > 0) onSkipped?.(skipped, skippedPaths(response));
    return this.#bodyOf(call, response);
  }

  /** Unpacks a tar archive into a directory. */
  async untar(
    path: SandboxPath | undefined,
    archive: FileSource,
    options: CallOptions = {},
  ): Promise<ExtractedArchive> {
    const { entries, bytes } = await this.#transport.json<ExtractedBody>({
      method: "PUT",
      path: `${this.#base}/fs/tar`,
      query: pathFields(path),
      body: archive,
      signal: options.signal,
    });
    return { entries, bytes };
  }

  #file(method: "GET" | "PUT", path: SandboxPath, signal: AbortSignal | undefined): Call {
    return { method, path: `${this.#base}/fs/file`, query: pathFields(path), signal };
  }

  #download(path: SandboxPath, onRealPath: OnRealPath, signal: AbortSignal | undefined): Call {
    const file = this.#file("GET", path, signal);
    return onRealPath === undefined ? file : { ...file, query: { ...file.query, real_path: true } };
  }

  async #put(
    path: SandboxPath,
    body: FileSource,
    query: Call["query"],
    options: Pick<Call, "repeatable" | "signal">,
  ): Promise<WrittenFile> {
    const written = await this.#transport.json<WrittenFileBody>({
      ...this.#file("PUT", path, undefined),
      query: { ...pathFields(path), ...query },
      body,
      ...options,
    });
    const { size_bytes: sizeBytes, etag } = written;
    return withSnakeNames(Object.assign(toNamedPath(written), { sizeBytes, etag }));
  }

  async #bytes(call: Call, onRealPath: OnRealPath): Promise<Uint8Array> {
    const { bytes, response } = await this.#transport.send(
      { ...call, large: true },
      async (answer) => ({ bytes: new Uint8Array(await answer.arrayBuffer()), response: answer }),
    );
    reportRealPath(response, onRealPath);
    return bytes;
  }

  #bodyOf(call: Call, response: Response): ReadableStream<Uint8Array> {
    const what = `${call.method} ${call.path}`;
    return readBytes(response, { what, signal: call.signal });
  }

  #post<Body>(
    name: string,
    json: unknown,
    signal: AbortSignal | undefined,
    large = false,
  ): Promise<Body> {
    return this.#transport.json<Body>({
      method: "POST",
      path: `${this.#base}/fs/${name}`,
      json,
      large,
      signal,
    });
  }
}

function octal(mode: number | undefined): string | undefined {
  return mode?.toString(8).padStart(3, "0");
}

/** The header has them percent-encoded. */
function skippedPaths(response: Response): readonly string[] {
  const header = response.headers.get("x-sandkasten-unreadable-paths") ?? "";
  return header === "" ? [] : header.split(",").map(decodedPath);
}

function reportRealPath({ headers }: Response, onRealPath: OnRealPath): void {
  const realPath = headers.get("x-sandkasten-real-path");
  if (realPath !== null) onRealPath?.(decodedPath(realPath));
}

/** Invalid UTF-8 stays percent-encoded. */
function decodedPath(path: string): string {
  try {
    return decodeURIComponent(path);
  } catch {
    return path;
  }
}

/** HTTP ranges include the last byte; the SDK's end is exclusive, as usual in JavaScript. */
function rangeHeader({ start = 0, end }: ByteRange): { readonly range: string } {
  return { range: `bytes=${start}-${end === undefined ? "" : end - 1}` };
}
