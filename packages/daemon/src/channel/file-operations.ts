/** File operations in a sandbox. */
import {
  archiveEventSchema,
  copiedSchema,
  directoryPageSchema,
  fileEventSchema,
  pathSchema,
  ProtocolError,
  readSchema,
  SandboxError,
  statSchema,
  tarSchema,
  writtenSchema,
} from "@sandkasten/protocol";
import type { DirectoryPage, FileEntry, NamedPath, RunnerRequest } from "@sandkasten/protocol";
import type { Channel, FileRead, SandboxPath, TarStream, WriteOptions } from "../ports/channel.ts";
import { ByteStreamSink } from "./byte-stream.ts";
import { call, callWithBody, checkRequest, connectionFor } from "./call.ts";
import { checked } from "./checked-message.ts";
import type { ConnectionHolder } from "./connection-holder.ts";
import { wirePath } from "./wire-path.ts";

interface ReportedFile extends Omit<FileRead, "body" | "realPath"> {
  readonly realPath?: NamedPath | null;
}

export class FileOperations {
  readonly #holder: ConnectionHolder;

  constructor(holder: ConnectionHolder) {
    this.#holder = holder;
  }

  stat(...[path, options = {}]: Parameters<Channel["stat"]>): Promise<FileEntry> {
    return call(this.#holder, { op: "stat", path: wirePath(path), ...options }, statSchema);
  }

  async realpath(path: SandboxPath): Promise<NamedPath> {
    return await this.#pathOf({ op: "realpath", path: wirePath(path) });
  }

  async readFile(
    ...[path, { realPath = false, ...range } = {}]: Parameters<Channel["readFile"]>
  ): Promise<FileRead> {
    const request = checkRequest({
      op: "read",
      path: wirePath(path),
      ...range,
      ...(realPath && { real_path: true }),
    });
    const connection = await connectionFor(this.#holder, request.op);
    let file: ReportedFile | undefined;
    const sink = new ByteStreamSink({
      op: request.op,
      maxBytes: range.length,
      onEvent: (message) => {
        file = checked(fileEventSchema, message, "file event");
      },
      onResponse: countMatches,
    });
    const stream = connection.openStream(request, sink, {
      deadlineMs: this.#holder.deadlines.answerMs,
    });
    await sink.begun.promise;
    if (file === undefined) throw new Error("a read began without its event");
    const { realPath: reported, ...rest } = file;
    const read = { ...rest, body: sink.readable(connection, stream) };
    if (!realPath) return read;
    try {
      return { ...read, realPath: await this.#realPathOf(path, reported) };
    } catch (error) {
      await read.body.cancel();
      throw error;
    }
  }

  async #realPathOf(path: SandboxPath, reported: NamedPath | null | undefined): Promise<NamedPath> {
    // Runners of earlier versions do not report it with the file.
    if (reported === undefined) return await this.realpath(path);
    if (reported !== null) return reported;
    throw new SandboxError("UNSUPPORTED", "the open file has no path");
  }

  writeFile(
    ...[path, content, options = {}]: Parameters<Channel["writeFile"]>
  ): ReturnType<Channel["writeFile"]> {
    const { overwrite } = options;
    const request: RunnerRequest = {
      op: "write",
      path: wirePath(path),
      ...writeFields(options),
      ...(overwrite !== undefined && { overwrite }),
    };
    return callWithBody(this.#holder, request, content, writtenSchema);
  }

  appendFile(
    ...[path, content, options = {}]: Parameters<Channel["appendFile"]>
  ): ReturnType<Channel["appendFile"]> {
    const request = { op: "append", path: wirePath(path), ...writeFields(options) } as const;
    return callWithBody(this.#holder, request, content, writtenSchema);
  }

  listDirectory(
    ...[path, options = {}]: Parameters<Channel["listDirectory"]>
  ): Promise<DirectoryPage> {
    const request = { op: "list", path: wirePath(path), ...options } as const;
    return call(this.#holder, request, directoryPageSchema);
  }

  async makeDirectory(
    ...[path, options = {}]: Parameters<Channel["makeDirectory"]>
  ): Promise<NamedPath> {
    return await this.#pathOf({ op: "mkdir", path: wirePath(path), ...options });
  }

  move(...[from, to, options = {}]: Parameters<Channel["move"]>): Promise<NamedPath> {
    return this.#pathOf(
      { op: "move", from: wirePath(from), to: wirePath(to), ...options },
      this.#holder.deadlines.slowAnswerMs,
    );
  }

  copy(...[from, to, options = {}]: Parameters<Channel["copy"]>): ReturnType<Channel["copy"]> {
    const request = { op: "copy", from: wirePath(from), to: wirePath(to), ...options } as const;
    return call(this.#holder, request, copiedSchema, this.#holder.deadlines.slowAnswerMs);
  }

  remove(...[path, options = {}]: Parameters<Channel["remove"]>): Promise<NamedPath> {
    return this.#pathOf(
      { op: "remove", path: wirePath(path), ...options },
      this.#holder.deadlines.slowAnswerMs,
    );
  }

  extractTar(
    ...[path, archive, limits = {}]: Parameters<Channel["extractTar"]>
  ): ReturnType<Channel["extractTar"]> {
    const request: RunnerRequest = {
      op: "tar_in",
      path: wirePath(path),
      ...(limits.maxBytes !== undefined && { max_bytes: limits.maxBytes }),
      ...(limits.maxEntries !== undefined && { max_entries: limits.maxEntries }),
    };
    return callWithBody(this.#holder, request, archive, tarSchema);
  }

  async createTar(
    ...[path, { exclude, onUnreadable } = {}]: Parameters<Channel["createTar"]>
  ): Promise<TarStream> {
    const request = checkRequest({
      op: "tar_out",
      path: wirePath(path),
      ...(exclude !== undefined && { exclude: [...exclude] }),
      ...(onUnreadable !== undefined && { on_unreadable: onUnreadable }),
    });
    const connection = await connectionFor(this.#holder, request.op);
    let found: Omit<TarStream, "body"> | undefined;
    const sink = new ByteStreamSink({
      op: request.op,
      onEvent: (message) => {
        found = checked(archiveEventSchema, message, "archive event");
      },
      onResponse: (message) => void checked(tarSchema, message, "answer to tar_out"),
    });
    const stream = connection.openStream(request, sink, {
      deadlineMs: this.#holder.deadlines.slowAnswerMs,
    });
    await sink.begun.promise;
    if (found === undefined) throw new Error("an archive began without its event");
    return { ...found, body: sink.readable(connection, stream) };
  }

  async #pathOf(request: RunnerRequest, deadlineMs?: number): Promise<NamedPath> {
    return await call(this.#holder, request, pathSchema, deadlineMs);
  }
}

function writeFields({ mode, parents, ifVersion }: WriteOptions): {
  mode?: number;
  parents?: boolean;
  if_version?: string;
} {
  return {
    ...(mode !== undefined && { mode }),
    ...(parents !== undefined && { parents }),
    ...(ifVersion !== undefined && { if_version: ifVersion }),
  };
}

/** A read that ends with fewer bytes than the runner claims was tampered with or cut off. */
function countMatches(message: Record<string, unknown>, receivedBytes: number): void {
  const { bytes } = checked(readSchema, message, "answer to read");
  if (bytes !== receivedBytes) {
    throw new ProtocolError(
      "bad_message",
      `the runner says it sent ${String(bytes)} bytes, but ${String(receivedBytes)} arrived`,
    );
  }
}
