/** Files as bytes: downloaded completely or in part, and uploaded as a body. */
import type { IncomingHttpHeaders } from "node:http";
import {
  downloadQuery,
  filePathQuery,
  putFileQuery,
  SandboxError,
  writtenFileSchema,
} from "@sandkasten/protocol";
import type { NamedPath } from "@sandkasten/protocol";
import { z } from "zod";
import type { FileRead, SandboxPath } from "../../../../ports/channel.ts";
import { answerOf, errors, FILE_ERRORS, WRITE_ERRORS } from "../../openapi/documented-responses.ts";
import { writtenFileBody } from "../../bodies/file-body.ts";
import { pathOf } from "../../bodies/path-body.ts";
import { bodyBytes } from "../../../http/bodies/byte-body.ts";
import { attachment } from "./content-disposition.ts";
import type { App } from "../../../http/app.ts";
import type { NativeContext } from "../../context.ts";
import { sendDownload } from "../../../http/responses/download.ts";
import type { FileSpace } from "./file-space.ts";
import { etagOf, openSlice, peek } from "./file-slice.ts";
import { writeFile } from "./write-file.ts";

const rangeHeaders = z.looseObject({
  range: z
    .string()
    .optional()
    .meta({ description: "`bytes=first-last`, `bytes=first-` or `bytes=-suffix`" }),
  "if-range": z.string().optional().meta({
    description:
      "The ETag of the part that you already have. If the file has changed, the whole file is sent",
  }),
});

const conditionHeaders = z.looseObject({
  "if-match": z
    .string()
    .optional()
    .meta({ description: "The ETag that the file must still have; the same as `if_match`" }),
  "if-none-match": z
    .string()
    .optional()
    .meta({ description: "`*` refuses to replace a file; the same as `overwrite=false`" }),
});

export function downloadRoutes(app: App, space: FileSpace, context: NativeContext): void {
  const { prefix, params } = space;
  const tags = [space.tag];

  app.get(
    `${prefix}/fs/file`,
    {
      exposeHeadRoute: false,
      config: { stream: true },
      schema: {
        tags,
        summary: "Download a file, or a range of it",
        params,
        headers: rangeHeaders,
        querystring: downloadQuery,
        response: {
          ...answerOf(200, "application/octet-stream", "The whole file"),
          ...answerOf(206, "application/octet-stream", "The range"),
          ...answerOf(416, "application/octet-stream", "The file ends before the range begins"),
          ...errors(FILE_ERRORS),
        },
      },
    },
    async (request, reply) => {
      const path = pathOf(request.query);
      using files = await space.open(request.caller, request.params.id, path);
      const { read, range } = await openSlice(files, path, {
        headers: request.raw.headers,
        realPath: request.query.real_path === true,
      });
      if (read.realPath !== undefined) reply.headers(realPathHeader(read.realPath));
      if (range?.length === 0) {
        await read.body.cancel();
        return await reply.code(416).header("Content-Range", `bytes */${read.size}`).send();
      }
      await sendDownload(reply, {
        status: range === undefined ? 200 : 206,
        headers: { ...fileHeaders(path, read), ...(range && contentRange(range, read.size)) },
        body: read.body,
        length: range?.length ?? read.size,
        stallTimeoutMs: context.stallTimeoutMs,
      });
      return undefined;
    },
  );

  app.head(
    `${prefix}/fs/file`,
    {
      schema: {
        tags,
        summary: "Get the size and ETag of a file",
        params,
        querystring: filePathQuery,
        response: {
          ...answerOf(200, "application/octet-stream", "No body"),
          ...errors(FILE_ERRORS),
        },
      },
    },
    async (request, reply) => {
      const path = pathOf(request.query);
      using files = await space.open(request.caller, request.params.id, path);
      const file = await peek(files, path);
      reply.headers(fileHeaders(path, file)).header("Content-Length", file.size);
      return await reply.type("application/octet-stream").send();
    },
  );
}

/** The scope must leave bodies unread. */
export function fileUploadRoutes(app: App, space: FileSpace, context: NativeContext): void {
  const { limits, stallTimeoutMs } = context;
  app.put(
    `${space.prefix}/fs/file`,
    {
      config: { body: "bytes" },
      schema: {
        tags: [space.tag],
        summary: "Upload a file as the request body. The replacement is atomic",
        consumes: ["application/octet-stream"],
        params: space.params,
        headers: conditionHeaders,
        querystring: putFileQuery,
        response: { 200: writtenFileSchema, ...errors(WRITE_ERRORS, "FILE_CHANGED") },
      },
    },
    async (request) => {
      const asked = { ...request.query, ...conditionsOf(request.raw.headers) };
      const target = pathOf(request.query);
      const bytes = bodyBytes(request.body, { maxBytes: limits.maxUploadBytes, stallTimeoutMs });
      using files = await space.openToWrite(request.caller, request.params.id, target);
      return writtenFileBody(await writeFile(files, target, bytes, asked));
    },
  );
}

function fileHeaders(path: SandboxPath, file: FileRead): Record<string, string> {
  return {
    "Accept-Ranges": "bytes",
    ETag: etagOf(file),
    "Content-Disposition": attachment(path),
  };
}

function realPathHeader({ path, rawPath }: NamedPath): Record<string, string> {
  const bytes = rawPath === undefined ? Buffer.from(path) : Buffer.from(rawPath, "base64");
  // Escapes every byte that is not a plain path character, so any name fits into a header.
  const encoded = bytes
    .toString("latin1")
    .replaceAll(
      /[^A-Za-z0-9/._~-]/g,
      (byte) => `%${byte.charCodeAt(0).toString(16).padStart(2, "0")}`,
    );
  return { "X-Sandkasten-Real-Path": encoded };
}

const ONE_ETAG = /^"[^"]*"$/;

/** Maps HTTP's conditional headers to our own terms. */
function conditionsOf(headers: IncomingHttpHeaders): {
  readonly if_match?: string;
  readonly overwrite?: false;
} {
  const { "if-match": etag, "if-none-match": unless } = headers;
  if (etag !== undefined && !ONE_ETAG.test(etag))
    throw new SandboxError("INVALID_REQUEST", "the header If-Match must be one ETag in quotes");
  if (unless !== undefined && unless !== "*")
    throw new SandboxError("INVALID_REQUEST", "the header If-None-Match must be *");
  return {
    ...(etag !== undefined && { if_match: etag }),
    ...(unless !== undefined && { overwrite: false as const }),
  };
}

function contentRange(
  { first, length }: { readonly first: number; readonly length: number },
  size: number,
): Record<string, string> {
  return { "Content-Range": `bytes ${first}-${first + length - 1}/${size}` };
}
