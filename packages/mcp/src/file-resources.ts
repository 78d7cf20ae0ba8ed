/** Files of the open sandboxes as resources. */
import {
  ProtocolError,
  ProtocolErrorCode,
  ResourceNotFoundError,
} from "@modelcontextprotocol/server";
import type { ListResourcesResult, ReadResourceResult } from "@modelcontextprotocol/server";
import { ToolError } from "@sandkasten/tools";
import { fileUri, parseFileUri } from "./file-uri.ts";
import type { FileUri } from "./file-uri.ts";
import type { McpSession } from "./mcp-session.ts";

const PAGE_SIZE = 200;
/** Beyond these, a client must request files by name. */
const MAX_LISTED = 5000;
const MAX_READ_BYTES = 10_485_760;

export async function listFiles(
  session: McpSession,
  cursor: string | undefined,
): Promise<ListResourcesResult> {
  const start = cursor === undefined ? 0 : Number(cursor);
  if (!Number.isInteger(start) || start < 0 || start > MAX_LISTED)
    throw new ProtocolError(ProtocolErrorCode.InvalidParams, "The cursor is not one of this list.");
  const resources: ListResourcesResult["resources"] = [];
  let index = 0;
  for (const sandbox of session.sandboxes())
    for await (const { type, path, rawPath, sizeBytes } of sandbox.files.list("/workspace", {
      recursive: true,
    })) {
      // A name that is not UTF-8 cannot be said in a URI that leads back to it.
      if (type !== "file" || rawPath !== undefined) continue;
      if (index >= MAX_LISTED) return { resources };
      if (index >= start + PAGE_SIZE) return { resources, nextCursor: String(index) };
      if (index >= start)
        resources.push({ uri: fileUri(sandbox.id, path), name: path, size: sizeBytes });
      index += 1;
    }
  return { resources };
}

export async function readFile(session: McpSession, uri: string): Promise<ReadResourceResult> {
  const { sandboxId, path } = requireFileUri(uri);
  const tool = session.tools.get("sandbox_fs_read");
  if (tool === undefined) throw new ResourceNotFoundError(uri);
  let read: { readonly contents?: string; readonly contents_b64?: string; truncated: boolean };
  try {
    const input = { sandbox_id: sandboxId, path, max_bytes: MAX_READ_BYTES };
    read = (await tool.run(input)) as typeof read;
  } catch (error) {
    throw readFailure(uri, error);
  }
  if (read.truncated)
    throw new ProtocolError(
      ProtocolErrorCode.InvalidParams,
      `The file is larger than ${MAX_READ_BYTES} bytes. Read it in parts with sandbox_fs_read.`,
    );
  const { contents, contents_b64: blob = "" } = read;
  return {
    contents: [
      contents === undefined
        ? { uri, mimeType: "application/octet-stream", blob }
        : { uri, mimeType: "text/plain", text: contents },
    ],
  };
}

/** Throws for an invalid file name, and for a file that is not watched. */
export async function requireWatchable(session: McpSession, uri: string): Promise<void> {
  const { sandboxId, path } = requireFileUri(uri);
  if (!session.sandboxes().some(({ id }) => id === sandboxId)) throw new ResourceNotFoundError(uri);
  if (!path.startsWith("/workspace/"))
    throw new ProtocolError(
      ProtocolErrorCode.InvalidParams,
      "Only files below /workspace can be subscribed to.",
    );
}

function requireFileUri(uri: string): FileUri {
  const parsed = parseFileUri(uri);
  if (parsed === undefined) throw new ResourceNotFoundError(uri.slice(0, 200));
  return parsed;
}

function readFailure(uri: string, error: unknown): unknown {
  if (!(error instanceof ToolError)) return error;
  const isMissing = error.code === "FILE_NOT_FOUND" || error.code === "SANDBOX_NOT_FOUND";
  if (isMissing) return new ResourceNotFoundError(uri);
  return new ProtocolError(ProtocolErrorCode.InvalidParams, error.message);
}
