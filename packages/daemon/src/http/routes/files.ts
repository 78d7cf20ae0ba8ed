/** Small things about files, as JSON. */
import {
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
  writeFileSchema,
  writtenFileSchema,
} from "@sandkasten/protocol";
import { errors, FILE_ERRORS, WRITE_ERRORS } from "../answers.ts";
import { absolutePath, contentOf, fileEntryBody, WORKSPACE } from "../bodies/file-body.ts";
import type { App } from "../context.ts";
import type { FileSpace } from "../file-space.ts";

const DEFAULT_READ_BYTES = 1_048_576;
const MAX_READ_BYTES = 16_777_216;

export function fileRoutes(app: App, space: FileSpace): void {
  const { prefix, params } = space;
  const tags = [space.tag];

  app.post(
    `${prefix}/fs/write`,
    {
      schema: {
        tags,
        summary: "Write a file; parents are made",
        params,
        body: writeFileSchema,
        response: { 200: writtenFileSchema, ...errors(WRITE_ERRORS) },
      },
    },
    async (request) => {
      const { path: target, mode, overwrite } = request.body;
      const content = contentOf(request.body);
      using visit = await space.enterToWrite(request.caller, request.params.id, target);
      const { path, size } = await visit.channel.writeFile(target, content, {
        ...(mode !== undefined && { mode }),
        ...(overwrite !== undefined && { overwrite }),
      });
      return { ok: true as const, path, size, size_bytes: size };
    },
  );

  app.get(
    `${prefix}/fs/read`,
    {
      schema: {
        tags,
        summary: "Read the beginning of a file as base64; `fs/file` has all of it as bytes",
        params,
        querystring: readFileQuery,
        response: { 200: readFileSchema, ...errors(FILE_ERRORS) },
      },
    },
    async (request) => {
      const { path, max_bytes: asked = 0 } = request.query;
      const length = Math.min(asked === 0 ? DEFAULT_READ_BYTES : asked, MAX_READ_BYTES);
      using visit = await space.enter(request.caller, request.params.id, path);
      const { size, body } = await visit.channel.readFile(path, { length });
      const content = Buffer.concat(await Array.fromAsync(body));
      return {
        path: absolutePath(path),
        content_base64: content.toString("base64"),
        truncated: content.byteLength < size,
        size,
        size_bytes: size,
      };
    },
  );

  app.get(
    `${prefix}/fs`,
    {
      schema: {
        tags,
        summary: "List a directory, or all below it",
        params,
        querystring: listFilesQuery,
        response: { 200: fileListSchema, ...errors(FILE_ERRORS) },
      },
    },
    async (request) => {
      const { path = WORKSPACE, recursive, limit, cursor } = request.query;
      using visit = await space.enter(request.caller, request.params.id, path);
      const page = await visit.channel.listDirectory(path, {
        ...(recursive !== undefined && { recursive }),
        ...(limit !== undefined && { limit }),
        ...(cursor !== undefined && { cursor }),
      });
      return {
        path: absolutePath(path),
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
        summary: "Look at a file, directory or link",
        params,
        querystring: filePathQuery,
        response: { 200: fileEntryBodySchema, ...errors(FILE_ERRORS) },
      },
    },
    async (request) => {
      const { path } = request.query;
      using visit = await space.enter(request.caller, request.params.id, path);
      return fileEntryBody(await visit.channel.stat(path));
    },
  );

  app.post(
    `${prefix}/fs/mkdir`,
    {
      schema: {
        tags,
        summary: "Make a directory",
        params,
        body: makeDirectorySchema,
        response: { 200: pathBodySchema, ...errors(WRITE_ERRORS) },
      },
    },
    async (request) => {
      const { path: target, mode, parents = true } = request.body;
      using visit = await space.enterToWrite(request.caller, request.params.id, target);
      const path = await visit.channel.makeDirectory(target, {
        parents,
        ...(mode !== undefined && { mode }),
      });
      return { ok: true as const, path };
    },
  );

  app.post(
    `${prefix}/fs/move`,
    {
      schema: {
        tags,
        summary: "Move or rename a file or directory",
        params,
        body: moveFileSchema,
        response: { 200: pathBodySchema, ...errors(WRITE_ERRORS) },
      },
    },
    async (request) => {
      const { from, to, overwrite } = request.body;
      using visit = await space.enter(request.caller, request.params.id, from, to);
      const options = overwrite === undefined ? {} : { overwrite };
      return { ok: true as const, path: await visit.channel.move(from, to, options) };
    },
  );

  app.delete(
    `${prefix}/fs`,
    {
      schema: {
        tags,
        summary: "Remove a file, or a directory with `recursive`",
        params,
        querystring: removeFileQuery,
        response: { 200: removedFileSchema, ...errors(FILE_ERRORS, "FILE_EXISTS") },
      },
    },
    async (request) => {
      const { path: target, recursive } = request.query;
      using visit = await space.enter(request.caller, request.params.id, target);
      const options = recursive === undefined ? {} : { recursive };
      const path = await visit.channel.remove(target, options);
      return { ok: true as const, deleted: path, path };
    },
  );
}
