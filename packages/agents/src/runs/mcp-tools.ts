/** Tools of MCP servers: started or connected for a run, and closed with it. */
import { resolve } from "node:path";
import type { Client, Transport } from "@modelcontextprotocol/client";
import type { McpServerSettings } from "../prompts/frontmatter-schema.ts";
import type { AgentDefinition } from "../prompts/agent-definition.ts";
import { AgentRunError } from "./agent-executor.ts";
import { ToolFailure } from "./agent-tool.ts";
import type { AgentTool } from "./agent-tool.ts";
import { shortenedText } from "./shorten.ts";
import { toolName } from "./tool-name.ts";

export interface McpOptions {
  /** The working directory of programs that do not name one. */
  readonly dir: string;
  /** The values that `${NAME}` in settings can refer to. */
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly signal: AbortSignal;
}

export interface McpTools extends AsyncDisposable {
  readonly tools: readonly AgentTool[];
}

const CONNECT_TIMEOUT_MS = 20_000;
const CALL_TIMEOUT_MS = 10 * 60_000;
const MAX_RESULT_LENGTH = 100_000;
const MAX_DESCRIPTION_LENGTH = 4_000;
/** Each tool uses model context on every turn, and providers reject more. */
const MAX_TOOLS = 200;

/** Connects to all servers of the agent. Throws AgentRunError if one cannot be reached. */
export async function connectMcp(
  definition: AgentDefinition,
  options: McpOptions,
): Promise<McpTools> {
  const clients: Client[] = [];
  const close = async (): Promise<void> => {
    // A server that does not end must not keep the others open.
    await Promise.allSettled(clients.map(async (client) => await client.close()));
  };
  try {
    const tools: AgentTool[] = [];
    for (const [server, settings] of Object.entries(definition.mcp))
      tools.push(...(await toolsOf(server, settings, definition, options, clients)));
    return { tools: allowedTools(definition, tools), [Symbol.asyncDispose]: close };
  } catch (error) {
    await close();
    throw error;
  }
}

async function toolsOf(
  server: string,
  settings: McpServerSettings,
  { name }: AgentDefinition,
  options: McpOptions,
  clients: Client[],
): Promise<AgentTool[]> {
  const { signal } = options;
  try {
    const { Client } = await import("@modelcontextprotocol/client");
    const client = new Client({ name: "sandkasten", version: "0.1.0" });
    clients.push(client);
    const transport = await transportOf(settings, options);
    await client.connect(transport, { timeout: CONNECT_TIMEOUT_MS, signal });
    const { tools } = await client.listTools({}, { timeout: CONNECT_TIMEOUT_MS, signal });
    return tools.map((tool) => ({
      name: toolName(server, tool.name),
      description: shortenedText(tool.description ?? tool.name, MAX_DESCRIPTION_LENGTH),
      inputSchema: tool.inputSchema,
      pausesClock: false,
      run: async (input, call) => await callTool(client, server, tool.name, input, call.signal),
    }));
  } catch (error) {
    signal.throwIfAborted();
    if (error instanceof AgentRunError) throw error;
    throw new AgentRunError(
      "TOOLS_FAILED",
      `The MCP server ${server} of the agent ${name} cannot be used: ${reasonOf(error)}.`,
      { cause: error },
    );
  }
}

/**
 * SECURITY: an agent's file can start programs on this machine; anyone who can write it acts as the
 * operator, as with any code. The programs get few variables, so that keys of models and of the
 * daemon do not reach them unless the file says so. Guarded by mcp-tools.test.ts.
 */
async function transportOf(
  settings: McpServerSettings,
  { dir, env }: McpOptions,
): Promise<Transport> {
  if ("command" in settings) {
    const { StdioClientTransport } = await import("@modelcontextprotocol/client/stdio");
    return new StdioClientTransport({
      command: settings.command,
      args: settings.args ?? [],
      // The MCP client adds HOME, LOGNAME, PATH, SHELL, TERM and USER to these.
      env: withVariables(settings.env ?? {}, env),
      cwd: settings.cwd === undefined ? dir : resolve(dir, settings.cwd),
      stderr: "ignore",
    });
  }
  const { StreamableHTTPClientTransport } = await import("@modelcontextprotocol/client");
  return new StreamableHTTPClientTransport(new URL(settings.url), {
    requestInit: { headers: withVariables(settings.headers ?? {}, env) },
  });
}

function withVariables(
  values: Readonly<Record<string, string>>,
  env: McpOptions["env"],
): Record<string, string> {
  return Object.fromEntries(
    Object.entries(values).map(([name, value]) => [
      name,
      value.replaceAll(/\$\{(\w+)\}/g, (_, variable: string) => {
        const found = env[variable];
        if (found !== undefined) return found;
        throw new AgentRunError(
          "TOOLS_FAILED",
          `An MCP server needs the variable ${variable}, which is not set in the environment of the agent service.`,
        );
      }),
    ]),
  );
}

async function callTool(
  client: Client,
  server: string,
  name: string,
  input: unknown,
  signal: AbortSignal,
): Promise<unknown> {
  if (typeof input !== "object" || input === null || Array.isArray(input))
    throw new ToolFailure("INVALID_INPUT", "The arguments must be one JSON object.");
  let result: Awaited<ReturnType<Client["callTool"]>>;
  try {
    result = await client.callTool(
      { name, arguments: input as Record<string, unknown> },
      { signal, timeout: CALL_TIMEOUT_MS },
    );
  } catch (error) {
    signal.throwIfAborted();
    throw new ToolFailure(
      "MCP_FAILED",
      `The MCP server ${server} could not run ${name}: ${reasonOf(error)}.`,
      { cause: error },
    );
  }
  const text = textOf(result.content);
  if (result.isError === true) throw new ToolFailure("MCP_ERROR", text || `${name} failed.`);
  return result.structuredContent ?? { content: text };
}

function textOf(content: Awaited<ReturnType<Client["callTool"]>>["content"]): string {
  const texts = content.map((part) =>
    part.type === "text" ? part.text : `[${part.type} omitted: only text can be shown]`,
  );
  return shortenedText(texts.join("\n"), MAX_RESULT_LENGTH);
}

/** Checked here because only the servers know which tools they have. */
function allowedTools(
  { name, tools: allowed, mcp }: AgentDefinition,
  tools: AgentTool[],
): AgentTool[] {
  const names = new Set(tools.map((tool) => tool.name));
  if (names.size < tools.length)
    throw new AgentRunError(
      "TOOLS_FAILED",
      `Two tools of the MCP servers of the agent ${name} have the same name. Give the servers other names.`,
    );
  if (allowed === undefined) return refuseTooMany(name, tools);
  const wanted = allowed.filter((tool) => !tool.startsWith("sandbox_"));
  const missing = wanted.filter((tool) => !names.has(tool));
  if (missing.length > 0)
    throw new AgentRunError(
      "TOOLS_FAILED",
      `The agent ${name} names tools that do not exist: ${missing.join(", ")}. ${Object.keys(mcp).length === 0 ? "It has no MCP servers." : `Its MCP servers have ${[...names].join(", ") || "none"}.`}`,
    );
  return refuseTooMany(
    name,
    tools.filter((tool) => wanted.includes(tool.name)),
  );
}

function refuseTooMany(name: string, tools: AgentTool[]): AgentTool[] {
  if (tools.length <= MAX_TOOLS) return tools;
  throw new AgentRunError(
    "TOOLS_FAILED",
    `The MCP servers of the agent ${name} offer ${tools.length} tools, and an agent can have at most ${MAX_TOOLS}. List the ones that it needs in \`tools\`, for example \`tools: [${tools[0]?.name ?? ""}]\`.`,
  );
}

function reasonOf(error: unknown): string {
  const message = error instanceof Error ? error.message : String(error);
  return shortenedText(message.replaceAll(/\s+/g, " "), 300);
}
