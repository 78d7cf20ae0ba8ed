/** Work on the files of a sandbox. */
import {
  directoryPageSchema,
  fileEventSchema,
  pathSchema,
  ProtocolError,
  readSchema,
  statSchema,
  tarSchema,
  writtenSchema,
} from "@sandkasten/protocol";
import type { DirectoryPage, FileEntry, RunnerRequest } from "@sandkasten/protocol";
import type { Channel, FileRead } from "../ports/channel.ts";
import { ByteStreamSink } from "./byte-stream.ts";
import { call, callWithBody, checkRequest, connectionFor } from "./call.ts";
import { checked } from "./checked-message.ts";
import type { ConnectionHolder } from "./connection-holder.ts";

export class FileOperations {
  readonly #holder: ConnectionHolder;

  constructor(holder: ConnectionHolder) {
    this.#holder = holder;
  }

  stat(path: string): Promise<FileEntry> {
    return call(this.#holder, { op: "stat", path }, statSchema);
  }

  async readFile(path: string, range: Parameters<Channel["readFile"]>[1] = {}): Promise<FileRead> {
    const request = checkRequest({ op: "read", path, ...range });
    const connection = await connectionFor(this.#holder, request.op);
    let file: Omit<FileRead, "body"> | undefined;
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
    return { ...file, body: sink.readable(connection, stream) };
  }

  writeFile(
    ...[path, content, options = {}]: Parameters<Channel["writeFile"]>
  ): ReturnType<Channel["writeFile"]> {
    return callWithBody(this.#holder, { op: "write", path, ...options }, content, writtenSchema);
  }

  listDirectory(
    path: string,
    options: Parameters<Channel["listDirectory"]>[1] = {},
  ): Promise<DirectoryPage> {
    return call(this.#holder, { op: "list", path, ...options }, directoryPageSchema);
  }

  async makeDirectory(
    path: string,
    options: Parameters<Channel["makeDirectory"]>[1] = {},
  ): Promise<string> {
    return await this.#pathOf({ op: "mkdir", path, ...options });
  }

  move(from: string, to: string, options: Parameters<Channel["move"]>[2] = {}): Promise<string> {
    return this.#pathOf({ op: "move", from, to, ...options });
  }

  remove(path: string, options: Parameters<Channel["remove"]>[1] = {}): Promise<string> {
    return this.#pathOf({ op: "remove", path, ...options }, this.#holder.deadlines.slowAnswerMs);
  }

  extractTar(
    ...[path, archive, limits = {}]: Parameters<Channel["extractTar"]>
  ): ReturnType<Channel["extractTar"]> {
    const request: RunnerRequest = {
      op: "tar_in",
      path,
      ...(limits.maxBytes !== undefined && { max_bytes: limits.maxBytes }),
      ...(limits.maxEntries !== undefined && { max_entries: limits.maxEntries }),
    };
    return callWithBody(this.#holder, request, archive, tarSchema);
  }

  async createTar(path: string): Promise<ReadableStream<Uint8Array>> {
    const request = checkRequest({ op: "tar_out", path });
    const connection = await connectionFor(this.#holder, request.op);
    const sink = new ByteStreamSink({
      op: request.op,
      onResponse: (message) => void checked(tarSchema, message, "answer to tar_out"),
    });
    const stream = connection.openStream(request, sink, {
      deadlineMs: this.#holder.deadlines.slowAnswerMs,
    });
    await sink.begun.promise;
    return sink.readable(connection, stream);
  }

  async #pathOf(request: RunnerRequest, deadlineMs?: number): Promise<string> {
    return (await call(this.#holder, request, pathSchema, deadlineMs)).path;
  }
}

/** A read that ends with fewer bytes than the runner says it sent was tampered with or cut. */
function countMatches(message: Record<string, unknown>, receivedBytes: number): void {
  const { bytes } = checked(readSchema, message, "answer to read");
  if (bytes !== receivedBytes) {
    throw new ProtocolError(
      "bad_message",
      `the runner says it sent ${String(bytes)} bytes, but ${String(receivedBytes)} arrived`,
    );
  }
}
