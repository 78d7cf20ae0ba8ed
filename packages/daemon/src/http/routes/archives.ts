/** Whole directories as tar archives, out and in. */
import { extractedSchema, tarQuery } from "@sandkasten/protocol";
import { answerOf, errors, FILE_ERRORS, WRITE_ERRORS } from "../answers.ts";
import { WORKSPACE } from "../bodies/file-body.ts";
import { bodyBytes } from "../byte-body.ts";
import { attachment } from "../content-disposition.ts";
import type { App, HttpContext } from "../context.ts";
import { sendDownload } from "../download.ts";
import type { FileSpace } from "../file-space.ts";

export function archiveDownloadRoutes(app: App, space: FileSpace, context: HttpContext): void {
  app.get(
    `${space.prefix}/fs/tar`,
    {
      exposeHeadRoute: false,
      config: { stream: true },
      schema: {
        tags: [space.tag],
        summary: "Download a directory as a tar archive",
        params: space.params,
        querystring: tarQuery,
        response: {
          ...answerOf(200, "application/octet-stream", "The archive"),
          ...errors(FILE_ERRORS),
        },
      },
    },
    async (request, reply) => {
      const { path = WORKSPACE } = request.query;
      using visit = await space.enter(request.caller, request.params.id, path);
      await sendDownload(reply, {
        status: 200,
        headers: { "Content-Disposition": attachment(path, ".tar") },
        body: await visit.channel.createTar(path),
        stallTimeoutMs: context.stallTimeoutMs,
      });
    },
  );
}

/** The scope's bodies must be left unread. */
export function archiveUploadRoutes(app: App, space: FileSpace, context: HttpContext): void {
  const { limits, stallTimeoutMs } = context;
  app.put(
    `${space.prefix}/fs/tar`,
    {
      config: { body: "bytes" },
      schema: {
        tags: [space.tag],
        summary: "Unpack a tar archive, sent as the body, into a directory",
        consumes: ["application/x-tar"],
        params: space.params,
        querystring: tarQuery,
        response: { 200: extractedSchema, ...errors(WRITE_ERRORS) },
      },
    },
    async (request) => {
      const { path = WORKSPACE } = request.query;
      const bytes = bodyBytes(request.body, { maxBytes: limits.maxUploadBytes, stallTimeoutMs });
      using visit = await space.enterToWrite(request.caller, request.params.id, path);
      const unpacked = await visit.channel.extractTar(path, bytes, {
        maxBytes: limits.maxUploadBytes,
      });
      return { ok: true as const, entries: unpacked.entries, bytes: unpacked.bytes };
    },
  );
}
