/** File operations as JSON. */
import {
  copiedFilesSchema,
  copyFileSchema,
  fileEntryBodySchema,
  fileListSchema,
  filePathQuery,
  listFilesQuery,
  makeDirectorySchema,
  moveFileSchema,
  pathBodySchema,
  readFileQuery,
  readFileSchema,
  removedFileSchema,
  removeFileQuery,
  statQuery,
  writeFileSchema,
  writtenFileSchema,
} from "@sandkasten/protocol";
import { errors, FILE_ERRORS, WRITE_ERRORS } from "../../openapi/documented-responses.ts";
import { contentOf, fileEntryBody, writtenFileBody } from "../../bodies/file-body.ts";
import { askedPath, pathBody, pathOf, pathsOf, WORKSPACE } from "../../bodies/path-body.ts";
import type { App } from "../../../http/app.ts";
import { memoryExceeded } from "../../../http/request/request-memory.ts";
import type { RequestMemory } from "../../../http/request/request-memory.ts";
import type { FileSpace } from "./file-space.ts";
import { writeFile } from "./write-file.ts";

const DEFAULT_READ_BYTES = 1_048_576;
const MAX_READ_BYTES = 16_777_216;

export function fileRoutes(app: App, space: FileSpace, memory: RequestMemory): void {
  contentRoutes(app, space, memory);
  lookupRoutes(app, space);
  treeRoutes(app, space);
}

/** Contents of small files. */
function contentRoutes(app: App, space: FileSpace, memory: RequestMemory): void {
  const { prefix, params } = space;
  const tags = [space.tag];

  app.post(
    `${prefix}/fs/write`,
    {
      config: { body: "content" },
      schema: {
        tags,
        summary: "Write or append to a file, creating parent directories",
        params,
        body: writeFileSchema,
        response: { 200: writtenFileSchema, ...errors(WRITE_ERRORS, "FILE_CHANGED") },
      },
    },
    async (request) => {
      const target = pathOf(request.body);
      const content = contentOf(request.body);
      using files = await space.openToWrite(request.caller, request.params.id, target);
      return writtenFileBody(await writeFile(files, target, content, request.body));
    },
  );

  app.get(
    `${prefix}/fs/read`,
    {
      schema: {
        tags,
        summary:
          "Read the beginning of a file as base64. `fs/file` returns the whole file as bytes",
        params,
        querystring: readFileQuery,
        response: { 200: readFileSchema, ...errors(FILE_ERRORS) },
      },
    },
    async (request, reply) => {
      const path = pathOf(request.query);
      const { max_bytes: asked = 0 } = request.query;
      const length = Math.min(asked === 0 ? DEFAULT_READ_BYTES : asked, MAX_READ_BYTES);
      using files = await space.open(request.caller, request.params.id, path);
      const { size, version, body } = await files.readFile(path, { length });
      if (!memory.holdFor(request, reply).tryAdd(2 * Math.min(size, length))) {
        await body.cancel();
        throw memoryExceeded();
      }
      const content = Buffer.concat(await Array.fromAsync(body));
      return {
        ...askedPath(path),
        content_base64: content.toString("base64"),
        truncated: content.byteLength < size,
        size,
        size_bytes: size,
        etag: version,
      };
    },
  );
}

/** Names and metadata, without changing anything. */
function lookupRoutes(app: App, space: FileSpace): void {
  const { prefix, params } = space;
  const tags = [space.tag];

  app.get(
    `${prefix}/fs`,
    {
      schema: {
        tags,
        summary: "List a directory, optionally recursively",
        params,
        querystring: listFilesQuery,
        response: { 200: fileListSchema, ...errors(FILE_ERRORS) },
      },
    },
    async (request) => {
      const path = pathOf(request.query, WORKSPACE);
      const { recursive, limit, cursor } = request.query;
      using files = await space.open(request.caller, request.params.id, path);
      const page = await files.listDirectory(path, {
        ...(recursive !== undefined && { recursive }),
        ...(limit !== undefined && { limit }),
        ...(cursor !== undefined && { cursor }),
      });
      return {
        ...askedPath(path),
        entries: page.entries.map(fileEntryBody),
        ...(page.nextCursor !== undefined && { next_cursor: page.nextCursor }),
      };
    },
  );

  app.get(
    `${prefix}/fs/stat`,
    {
      schema: {
        tags,
        summary: "Get the metadata of a file, directory or link",
        params,
        querystring: statQuery,
        response: { 200: fileEntryBodySchema, ...errors(FILE_ERRORS) },
      },
    },
    async (request) => {
      const path = pathOf(request.query);
      const { follow } = request.query;
      using files = await space.open(request.caller, request.params.id, path);
      const options = follow === undefined ? {} : { follow };
      return fileEntryBody(await files.stat(path, options));
    },
  );

  app.get(
    `${prefix}/fs/realpath`,
    {
      schema: {
        tags,
        summary: "Resolve a path to an absolute path without links, `.` and `..`",
        params,
        querystring: filePathQuery,
        response: { 200: pathBodySchema, ...errors(FILE_ERRORS) },
      },
    },
    async (request) => {
      const path = pathOf(request.query);
      using files = await space.open(request.caller, request.params.id, path);
      return { ok: true as const, ...pathBody(await files.realpath(path)) };
    },
  );
}

/** Changes to the directory tree. */
function treeRoutes(app: App, space: FileSpace): void {
  const { prefix, params } = space;
  const tags = [space.tag];

  app.post(
    `${prefix}/fs/mkdir`,
    {
      schema: {
        tags,
        summary: "Create a directory",
        params,
        body: makeDirectorySchema,
        response: { 200: pathBodySchema, ...errors(WRITE_ERRORS) },
      },
    },
    async (request) => {
      const target = pathOf(request.body);
      const { mode, parents = true } = request.body;
      using files = await space.openToWrite(request.caller, request.params.id, target);
      const made = await files.makeDirectory(target, {
        parents,
        ...(mode !== undefined && { mode }),
      });
      return { ok: true as const, ...pathBody(made) };
    },
  );

  app.post(
    `${prefix}/fs/move`,
    {
      schema: {
        tags,
        summary: "Move or rename a file or directory",
        description: "The parent directory of the target must exist.",
        params,
        body: moveFileSchema,
        response: { 200: pathBodySchema, ...errors(WRITE_ERRORS) },
      },
    },
    async (request) => {
      const { from, to } = pathsOf(request.body);
      const { overwrite } = request.body;
      using files = await space.open(request.caller, request.params.id, from, to);
      const options = overwrite === undefined ? {} : { overwrite };
      return { ok: true as const, ...pathBody(await files.move(from, to, options)) };
    },
  );

  app.post(
    `${prefix}/fs/copy`,
    {
      schema: {
        tags,
        summary: "Copy a file, or a directory with `recursive`",
        description:
          "Modes are preserved, and links are copied as links. The parent directory of the target must exist. A copy appears under its name only when it is complete.",
        params,
        body: copyFileSchema,
        response: { 200: copiedFilesSchema, ...errors(WRITE_ERRORS) },
      },
    },
    async (request) => {
      const { from, to } = pathsOf(request.body);
      const { overwrite, recursive } = request.body;
      using files = await space.open(request.caller, request.params.id, from, to);
      const copied = await files.copy(from, to, {
        ...(overwrite !== undefined && { overwrite }),
        ...(recursive !== undefined && { recursive }),
      });
      const { entries, bytes, skipped } = copied;
      return { ok: true as const, ...pathBody(copied), entries, bytes, skipped };
    },
  );

  app.delete(
    `${prefix}/fs`,
    {
      schema: {
        tags,
        summary: "Delete a file or an empty directory, or any directory with `recursive`",
        params,
        querystring: removeFileQuery,
        response: { 200: removedFileSchema, ...errors(FILE_ERRORS, "FILE_EXISTS") },
      },
    },
    async (request) => {
      const target = pathOf(request.query);
      const { recursive } = request.query;
      using files = await space.open(request.caller, request.params.id, target);
      const options = recursive === undefined ? {} : { recursive };
      const removed = await files.remove(target, options);
      return { ok: true as const, deleted: removed.path, ...pathBody(removed) };
    },
  );
}
