/** The OpenAI Agents SDK's editor, which applies a model's patches to the files of a session. */
import { type ApplyPatchOperation, type ApplyPatchResult, applyDiff } from "@openai/agents-core";
import type { Files } from "@sandkasten/sdk";

type Operation<Type extends ApplyPatchOperation["type"]> = Extract<
  ApplyPatchOperation,
  { readonly type: Type }
>;

export interface FileEditor {
  createFile(operation: Operation<"create_file">): Promise<ApplyPatchResult>;
  updateFile(operation: Operation<"update_file">): Promise<ApplyPatchResult>;
  deleteFile(operation: Operation<"delete_file">): Promise<ApplyPatchResult>;
}

export function editorOf(files: Files, resolve: (path: string) => string): FileEditor {
  return {
    createFile: async ({ path, diff }) => {
      await files.write(resolve(path), applyDiff("", diff, "create"), { overwrite: false });
      return { status: "completed", output: `Created ${path}` };
    },
    updateFile: async ({ path, diff, ...rest }) => {
      const from = resolve(path);
      const { etag } = await files.stat(from, { follow: true });
      const text = applyDiff(await files.readText(from), diff);
      // If the file was written since it was read, the write is refused, so nothing is lost.
      await files.write(from, text, { ifMatch: etag });
      const to = "moveTo" in rest && typeof rest.moveTo === "string" ? rest.moveTo : undefined;
      if (to !== undefined) await files.move(from, resolve(to));
      return { status: "completed", output: `Updated ${to ?? path}` };
    },
    deleteFile: async ({ path }) => {
      await files.remove(resolve(path));
      return { status: "completed", output: `Deleted ${path}` };
    },
  };
}
