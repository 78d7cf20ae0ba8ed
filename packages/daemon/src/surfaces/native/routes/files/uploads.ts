/** Files sent as a form. */
import multipart from "@fastify/multipart";
import type { Multipart } from "@fastify/multipart";
import { SandboxError, uploadedSchema, uploadQuery } from "@sandkasten/protocol";
import type { NamedPath } from "@sandkasten/protocol";
import { errors, WRITE_ERRORS } from "../../openapi/documented-responses.ts";
import { pathOf } from "../../bodies/path-body.ts";
import type { App } from "../../../http/app.ts";
import type { NativeContext } from "../../context.ts";
import type { FileSpace } from "./file-space.ts";
import { incompleteForm, partsOf } from "../../../http/bodies/form-parts.ts";
import { reportIgnored } from "../../parsing/ignored-fields.ts";
import { Upload } from "./upload.ts";

const FORM_LIMITS = { fields: 4, fieldSize: 65_536, files: 1000, parts: 1004, headerPairs: 64 };
const FILE_FIELDS: ReadonlySet<string> = new Set(["file", "files"]);

/** In a separate scope: reading forms adds hooks to every route of a scope. */
export async function uploadRoutes(
  app: App,
  spaces: readonly FileSpace[],
  context: NativeContext,
): Promise<void> {
  // File sizes are limited where files are read: here they would just be cut off.
  await app.register(multipart, { limits: { ...FORM_LIMITS, fileSize: Number.POSITIVE_INFINITY } });
  for (const space of spaces) uploadRoute(app, space, context);
}

function uploadRoute(app: App, space: FileSpace, { limits, stallTimeoutMs }: NativeContext): void {
  app.post(
    `${space.prefix}/fs/upload`,
    {
      config: { body: "form" },
      schema: {
        tags: [space.tag],
        summary: "Upload files as a form, into a directory",
        description:
          "Fields: `file` or `files`, any number of them, and `path`, the directory (/workspace if empty or absent). Only the last part of a file name is used.",
        consumes: ["multipart/form-data"],
        params: space.params,
        querystring: uploadQuery,
        response: { 200: uploadedSchema, ...errors(WRITE_ERRORS) },
      },
    },
    async (request, reply) => {
      const { caller, params, query } = request;
      const ignored: string[] = [];
      using opened = new DisposableStack();
      const upload = new Upload({
        open: async () => opened.use(await space.openToWrite(caller, params.id)),
        place: space.place,
        limits: { maxBytes: limits.maxUploadBytes, stallTimeoutMs },
      });
      if (query.path !== undefined || query.raw_path !== undefined)
        upload.setDirectory(pathOf(query));
      try {
        for await (const part of partsOf(request, stallTimeoutMs))
          await addPart(upload, part, ignored);
        reportIgnored(reply, ignored);
        return uploadedBody(await upload.finish());
      } catch (error) {
        // The rest of the form is not read.
        request.raw.unpipe();
        await upload.abandon();
        throw formError(error);
      }
    },
  );
}

/** A file in an unknown field is refused, so it is not lost silently; unknown text fields are reported. */
async function addPart(upload: Upload, part: Multipart, ignored: string[]): Promise<void> {
  const isFile = part.type === "file";
  if (isFile && FILE_FIELDS.has(part.fieldname)) await upload.addFile(part.filename, part.file);
  else if (!isFile && (part.fieldname === "path" || part.fieldname === "raw_path"))
    upload.setField(part.fieldname, part.value);
  else if (!isFile && !FILE_FIELDS.has(part.fieldname)) ignored.push(part.fieldname);
  else
    throw new SandboxError(
      "INVALID_REQUEST",
      `the form has a field ${JSON.stringify(part.fieldname.slice(0, 64))} that is unknown; files are \`file\` or \`files\` and need a file name, the directory is \`path\``,
    );
}

function uploadedBody(paths: readonly NamedPath[]): {
  ok: true;
  paths: string[];
  raw_paths?: string[];
} {
  const raw = paths.map(({ path, rawPath }) => rawPath ?? Buffer.from(path).toString("base64"));
  return {
    ok: true,
    paths: paths.map(({ path }) => path),
    ...(paths.some(({ rawPath }) => rawPath !== undefined) && { raw_paths: raw }),
  };
}

/** Errors in the form itself are plain errors of its parser. */
function formError(error: unknown): unknown {
  if (!(error instanceof Error) || "code" in error) return error;
  return incompleteForm(error);
}
