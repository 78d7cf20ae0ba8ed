/** `sandbox_stage_file`: copies a file of the file store into the sandbox. */
import { posix } from "node:path";
import { z } from "zod";
import type { FileStore } from "../file-store.ts";
import { oneOf, sandboxFields, sandboxIdOf } from "../input-fields.ts";
import { nearestName } from "../nearest-name.ts";
import { defineTool, type SandboxTool } from "../tool.ts";
import { ToolError } from "../tool-error.ts";
import type { CodeSandbox } from "./code-sandbox.ts";
import { writeFile } from "./write-file.ts";

/** How many names an error lists. */
const MAX_NAMES = 20;

const storeName = z.string().min(1).max(1024);
const input = z
  .strictObject({
    name: storeName.optional().describe("The file's name in the file store."),
    file_key: storeName.optional().describe("= name"),
    path: z
      .string()
      .min(1)
      .max(4096)
      .optional()
      .describe("Where to put it, relative to /workspace; default: its own name."),
    destination: z.string().min(1).max(4096).optional().describe("= path"),
    ...sandboxFields,
  })
  .transform((raw, context) => {
    const name = oneOf(context, { name: raw.name, file_key: raw.file_key });
    if (name === undefined)
      context.addIssue({ code: "custom", path: ["name"], message: "is missing" });
    return {
      sandboxId: sandboxIdOf(context, raw),
      name: name ?? "",
      path: oneOf(context, { path: raw.path, destination: raw.destination }),
    };
  });

const output = z.object({
  ok: z.literal(true),
  name: z.string(),
  path: z.string(),
  size_bytes: z.number(),
});

export type StageFileOutput = z.output<typeof output>;

export function stageFileTool(
  sandbox: CodeSandbox,
  store: FileStore,
): SandboxTool<StageFileOutput> {
  return defineTool({
    name: "sandbox_stage_file",
    description:
      "Copy a file from the file store into the sandbox. Returns its absolute path there and size_bytes.",
    input,
    output,
    onSandboxTime: sandbox.onSandboxTime,
    run: async ({ sandboxId, name, path = posix.basename(name) }, { signal }) => {
      const bytes = await store.get(name);
      if (bytes === undefined) throw await notInStore(store, name);
      return await sandbox.use(sandboxId, signal, async (session, held) => {
        const file = { sandbox, session, held, path, bytes };
        const written = await writeFile(file, { signal });
        return { ok: true as const, name, path: written.path, size_bytes: written.sizeBytes };
      });
    },
  });
}

async function notInStore(store: FileStore, name: string): Promise<ToolError> {
  const names = (await store.list?.()) ?? [];
  const nearest = nearestName(name, names);
  const hint =
    nearest === undefined
      ? ""
      : ` Did you mean ${nearest.name}? Files: ${names.slice(0, MAX_NAMES).join(", ")}${names.length > MAX_NAMES ? `, and ${names.length - MAX_NAMES} more` : ""}.`;
  return new ToolError(
    "FILE_NOT_FOUND",
    `The file store has no file ${JSON.stringify(name.slice(0, 256))}.${hint}`,
  );
}
