/** Whole directories as tar archives, in both directions. */
import { extractedSchema, tarQuery, untarQuery } from "@sandkasten/protocol";
import { answerOf, errors, FILE_ERRORS, WRITE_ERRORS } from "../../openapi/documented-responses.ts";
import type { TarStream } from "../../../../ports/channel.ts";
import { pathOf, WORKSPACE } from "../../bodies/path-body.ts";
import { bodyBytes } from "../../../http/bodies/byte-body.ts";
import { attachment } from "./content-disposition.ts";
import type { App } from "../../../http/app.ts";
import type { NativeContext } from "../../context.ts";
import { sendDownload } from "../../../http/responses/download.ts";
import type { FileSpace } from "./file-space.ts";

export function archiveDownloadRoutes(app: App, space: FileSpace, context: NativeContext): void {
  app.get(
    `${space.prefix}/fs/tar`,
    {
      exposeHeadRoute: false,
      config: { stream: true },
      schema: {
        tags: [space.tag],
        summary: "Download a directory as a tar archive",
        description:
          "Entries that cannot be read are found before the response begins. If a read fails later, the connection breaks, so an archive that ends is complete.",
        params: space.params,
        querystring: tarQuery,
        response: {
          ...answerOf(200, "application/octet-stream", "The archive"),
          ...errors(FILE_ERRORS),
        },
      },
    },
    async (request, reply) => {
      const path = pathOf(request.query, WORKSPACE);
      const { exclude, on_unreadable: onUnreadable } = request.query;
      using files = await space.open(request.caller, request.params.id, path);
      const archive = await files.createTar(path, {
        ...(exclude !== undefined && { exclude }),
        ...(onUnreadable !== undefined && { onUnreadable }),
      });
      await sendDownload(reply, {
        status: 200,
        headers: {
          "Content-Disposition": attachment(path, ".tar"),
          ...unreadableHeaders(archive),
        },
        body: archive.body,
        stallTimeoutMs: context.stallTimeoutMs,
      });
    },
  );
}

/** The scope must leave bodies unread. */
export function archiveUploadRoutes(app: App, space: FileSpace, context: NativeContext): void {
  const { limits, stallTimeoutMs } = context;
  app.put(
    `${space.prefix}/fs/tar`,
    {
      config: { body: "bytes" },
      schema: {
        tags: [space.tag],
        summary: "Extract a tar archive, sent as the request body, into a directory",
        consumes: ["application/x-tar"],
        params: space.params,
        querystring: untarQuery,
        response: { 200: extractedSchema, ...errors(WRITE_ERRORS) },
      },
    },
    async (request) => {
      const path = pathOf(request.query, WORKSPACE);
      const bytes = bodyBytes(request.body, { maxBytes: limits.maxUploadBytes, stallTimeoutMs });
      using files = await space.openToWrite(request.caller, request.params.id, path);
      const unpacked = await files.extractTar(path, bytes, {
        maxBytes: limits.maxUploadBytes,
      });
      return { ok: true as const, entries: unpacked.entries, bytes: unpacked.bytes };
    },
  );
}

const MAX_HEADER_LENGTH = 4_000;

/** How many entries were left out, and the first of them, percent-encoded so any byte fits. */
function unreadableHeaders({ unreadable, unreadablePaths }: TarStream): Record<string, string> {
  if (unreadable === 0) return {};
  let paths = "";
  for (const { path, rawPath } of unreadablePaths) {
    const bytes = rawPath === undefined ? Buffer.from(path) : Buffer.from(rawPath, "base64");
    const encoded = Array.from(bytes, percentEncoded).join("");
    if (paths.length + encoded.length > MAX_HEADER_LENGTH) break;
    paths += paths === "" ? encoded : `,${encoded}`;
  }
  return {
    "X-Sandkasten-Unreadable": String(unreadable),
    "X-Sandkasten-Unreadable-Paths": paths,
  };
}

function percentEncoded(byte: number): string {
  const sign = String.fromCharCode(byte);
  return /[A-Za-z0-9/._~-]/.test(sign)
    ? sign
    : `%${byte.toString(16).toUpperCase().padStart(2, "0")}`;
}
