/** Files sent as a form. */
import multipart from "@fastify/multipart";
import type { Multipart } from "@fastify/multipart";
import { SandboxError, uploadedSchema, uploadQuery } from "@sandkasten/protocol";
import { errors, WRITE_ERRORS } from "../answers.ts";
import type { App, HttpContext } from "../context.ts";
import type { FileSpace } from "../file-space.ts";
import { Upload } from "../upload.ts";

const FORM_LIMITS = { fields: 4, fieldSize: 65_536, files: 1000, parts: 1004, headerPairs: 64 };
const FILE_FIELDS: ReadonlySet<string> = new Set(["file", "files"]);

/** In a scope of its own: reading forms puts hooks on every route beside it. */
export async function uploadRoutes(
  app: App,
  spaces: readonly FileSpace[],
  context: HttpContext,
): Promise<void> {
  // How large files may be is counted where they are read: here they would just be cut off.
  await app.register(multipart, { limits: { ...FORM_LIMITS, fileSize: Number.POSITIVE_INFINITY } });
  for (const space of spaces) uploadRoute(app, space, context);
}

function uploadRoute(app: App, space: FileSpace, { limits, stallTimeoutMs }: HttpContext): void {
  app.post(
    `${space.prefix}/fs/upload`,
    {
      config: { body: "form" },
      schema: {
        tags: [space.tag],
        summary: "Upload files as a form, into a directory",
        description:
          "Fields: `file` or `files`, any number of them, and `path`, the directory. Of a file's name only the last part counts.",
        consumes: ["multipart/form-data"],
        params: space.params,
        querystring: uploadQuery,
        response: { 200: uploadedSchema, ...errors(WRITE_ERRORS) },
      },
    },
    async (request) => {
      const { caller, params, query } = request;
      using stay = new DisposableStack();
      const upload = new Upload({
        enter: async () => stay.use(await space.enterToWrite(caller, params.id)).channel,
        checkPath: space.checkPath,
        limits: { maxBytes: limits.maxUploadBytes, stallTimeoutMs },
      });
      if (query.path !== undefined) upload.setDirectory(query.path);
      try {
        for await (const part of request.parts()) await addPart(upload, part);
        return { ok: true as const, paths: await upload.finish() };
      } catch (error) {
        // Nobody reads the rest of the form.
        request.raw.unpipe();
        await upload.abandon();
        throw formError(error);
      }
    },
  );
}

async function addPart(upload: Upload, part: Multipart): Promise<void> {
  const isFile = part.type === "file";
  if (isFile && FILE_FIELDS.has(part.fieldname)) await upload.addFile(part.filename, part.file);
  else if (!isFile && part.fieldname === "path") upload.setDirectory(part.value);
  else
    throw new SandboxError(
      "INVALID_REQUEST",
      `the form has a field ${JSON.stringify(part.fieldname.slice(0, 64))} that is not known; files are \`file\` or \`files\` and need a file name, the directory is \`path\``,
    );
}

/** What is wrong with the form itself comes as plain errors of its parser. */
function formError(error: unknown): unknown {
  if (!(error instanceof Error) || "code" in error) return error;
  return new SandboxError("INVALID_REQUEST", "the body is no complete form", { cause: error });
}
