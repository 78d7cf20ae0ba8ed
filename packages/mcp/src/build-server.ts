/** The MCP server of one session. */
import { McpServer, ProtocolError, ProtocolErrorCode } from "@modelcontextprotocol/server";
import type { Tool } from "@modelcontextprotocol/server";
import type { SandboxTool } from "@sandkasten/tools";
import { callTool } from "./call-tool.ts";
import { listFiles, readFile, requireWatchable } from "./file-resources.ts";
import { FILE_URI_TEMPLATE } from "./file-uri.ts";
import type { McpSession } from "./mcp-session.ts";

export const SERVER_INFO = { name: "sandkasten", title: "Sandkasten", version: "0.1.0" };
/**
 * SECURITY: bounds the memory of a client that subscribes without end. Guarded by
 * mcp-attack.serial.test.ts.
 */
const MAX_SUBSCRIPTIONS = 256;

const INSTRUCTIONS =
  "Tools to run code in an isolated Linux sandbox. It is opened by the first call, keeps its files and shell state between calls, and is destroyed when this connection ends.";

/** The low-level server: our tools validate their own input. */
type Server = McpServer["server"];

/** `era` is the protocol version: the transport handles subscriptions of the newer one. */
export function buildServer(session: McpSession, era: "legacy" | "modern"): Server {
  const { hasFiles } = session;
  const { server } = new McpServer(SERVER_INFO, {
    instructions: INSTRUCTIONS,
    capabilities: { tools: {}, ...(hasFiles && { resources: { subscribe: true } }) },
  });
  server.setRequestHandler("tools/list", () => ({
    tools: [...session.tools.values()].map(toolBody),
  }));
  server.setRequestHandler("tools/call", ({ params }, context) =>
    callTool(session, { name: params.name, input: params.arguments }, context),
  );
  if (!hasFiles) return server;
  server.setRequestHandler("resources/list", ({ params }) => listFiles(session, params?.cursor));
  server.setRequestHandler("resources/templates/list", () => ({
    resourceTemplates: [
      {
        uriTemplate: FILE_URI_TEMPLATE,
        name: "sandbox file",
        description:
          "A file of an open sandbox, such as sandbox://ID/workspace/main.py. sandbox_open returns the id.",
      },
    ],
  }));
  server.setRequestHandler("resources/read", ({ params }) => readFile(session, params.uri));
  if (era === "legacy") holdSubscriptions(server, session);
  return server;
}

function holdSubscriptions(server: Server, session: McpSession): void {
  const subscribed = new Set<string>();
  let leave: (() => void) | undefined;
  server.setRequestHandler("resources/subscribe", async ({ params: { uri } }) => {
    await requireWatchable(session, uri);
    if (!subscribed.has(uri) && subscribed.size >= MAX_SUBSCRIPTIONS)
      throw new ProtocolError(
        ProtocolErrorCode.InvalidRequest,
        `A client can have ${MAX_SUBSCRIPTIONS} subscriptions. Unsubscribe from some first.`,
      );
    subscribed.add(uri);
    leave ??= session.changes.listen((changed) => {
      if (subscribed.has(changed)) void notifyChange(server, changed);
    });
    return {};
  });
  server.setRequestHandler("resources/unsubscribe", ({ params: { uri } }) => {
    subscribed.delete(uri);
    if (subscribed.size === 0) {
      leave?.();
      leave = undefined;
    }
    return {};
  });
  server.onclose = () => leave?.();
}

/** A disconnected client needs no notification. */
export async function notifyChange(server: Server, uri: string): Promise<void> {
  await server.sendResourceUpdated({ uri }).catch(() => undefined);
}

function toolBody({ name, description, inputJsonSchema, outputJsonSchema }: SandboxTool): Tool {
  return {
    name,
    description,
    inputSchema: inputJsonSchema as Tool["inputSchema"],
    outputSchema: outputJsonSchema,
    annotations: { openWorldHint: false, ...READ_ONLY_HINTS[name] },
  };
}

const READ_ONLY_HINTS: Readonly<Record<string, Tool["annotations"]>> = {
  sandbox_exec_read: { readOnlyHint: true },
  sandbox_exec_wait: { readOnlyHint: true },
  sandbox_fs_read: { readOnlyHint: true },
  sandbox_fs_list: { readOnlyHint: true },
};
