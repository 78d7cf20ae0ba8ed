/** A tool call: input validated by the tool, output streamed as progress, failures returned as results. */
import { context, propagation } from "@opentelemetry/api";
import type { CallToolResult, ServerContext } from "@modelcontextprotocol/server";
import { SandboxError } from "@sandkasten/sdk";
import { nearestName, ToolError } from "@sandkasten/tools";
import type { OutputPiece } from "@sandkasten/tools";
import type { McpSession } from "./mcp-session.ts";

/** Often enough to show activity; more would only slow the client down. */
const PROGRESS_INTERVAL_MS = 100;
const MAX_MESSAGE_LENGTH = 500;

export async function callTool(
  session: McpSession,
  { name, input }: { readonly name: string; readonly input: unknown },
  { mcpReq }: ServerContext,
): Promise<CallToolResult> {
  const tool = session.tools.get(name);
  if (tool === undefined) return failed("UNKNOWN_TOOL", unknownTool(name, session));
  const meta = mcpReq._meta;
  const token = meta?.progressToken;
  const onOutput =
    token === undefined
      ? undefined
      : progressOf((progress, message) =>
          mcpReq.notify({
            method: "notifications/progress",
            params: { progressToken: token, progress, message },
          }),
        );
  // The client's trace, if it sends one.
  const parent = propagation.extract(context.active(), meta ?? {});
  try {
    const output = await context.with(parent, () =>
      tool.run(input ?? {}, { signal: mcpReq.signal, onOutput }),
    );
    session.changes.refresh();
    return {
      content: [{ type: "text", text: JSON.stringify(tool.forModel(output)) }],
      structuredContent: output as Record<string, unknown>,
    };
  } catch (error) {
    return visibleFailure(error);
  }
}

/** Bytes so far, and the last line; never faster than the client reads. */
function progressOf(
  notify: (progress: number, message: string) => Promise<void>,
): (piece: OutputPiece) => void {
  let bytes = 0;
  let sentMs = Number.NEGATIVE_INFINITY;
  let isSending = false;
  return ({ text }) => {
    bytes += Buffer.byteLength(text);
    const now = performance.now();
    if (isSending || now - sentMs < PROGRESS_INTERVAL_MS) return;
    sentMs = now;
    isSending = true;
    // A disconnected client cancels the call itself.
    notify(bytes, text.trimEnd().slice(-MAX_MESSAGE_LENGTH)).then(
      () => (isSending = false),
      () => undefined,
    );
  };
}

/**
 * SECURITY: text that is not meant for a model, such as addresses of the daemon, is not passed on.
 * Guarded by mcp-attack.serial.test.ts.
 */
function visibleFailure(error: unknown): CallToolResult {
  if (!(error instanceof ToolError)) return failed("SANDBOX_FAILED", UNREACHABLE);
  const { cause } = error;
  const isOurs = cause === undefined || cause instanceof SandboxError;
  const isAway = cause instanceof SandboxError && cause.code === "CONNECTION_FAILED";
  return failed(error.code, isOurs && !isAway ? error.message : UNREACHABLE);
}

const UNREACHABLE =
  "The sandbox cannot be reached at the moment. Try again, or continue without it.";

function failed(code: string, message: string): CallToolResult {
  return { isError: true, content: [{ type: "text", text: `${code}: ${message}` }] };
}

function unknownTool(name: string, { tools }: McpSession): string {
  const known = [...tools.keys()];
  const nearest = nearestName(name.slice(0, 64), known)?.name;
  const hint = nearest === undefined ? "" : ` Did you mean ${nearest}?`;
  return `There is no tool ${JSON.stringify(name.slice(0, 64))}.${hint} The tools are ${known.join(", ")}.`;
}
