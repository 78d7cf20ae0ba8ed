/** What an agent can call: tools of the sandbox, of MCP servers, and other agents. */
import type { OutputPiece, SandboxTool } from "@sandkasten/tools";

export interface AgentTool {
  readonly name: string;
  /** Written for a model. */
  readonly description: string;
  readonly inputSchema: object;
  /** Its time does not count towards the run's timeout. */
  readonly pausesClock: boolean;
  /** Creates the spans of its calls itself. */
  readonly isTraced?: boolean;
  /**
   * Returns what a model sees. Throws ToolFailure, ToolError, or an error that a model must not
   * see.
   */
  run(input: unknown, call: AgentToolCall): Promise<unknown>;
}

export interface AgentToolCall {
  readonly id: string;
  readonly signal: AbortSignal;
  readonly onOutput: (piece: OutputPiece) => void;
  /** Reports something about this call to followers of the run. */
  readonly emit: (type: string, data: object) => void;
}

/** A failure that a model may see. */
export class ToolFailure extends Error {
  override readonly name = "ToolFailure";
  readonly code: string;

  constructor(code: string, message: string, options?: { readonly cause?: unknown }) {
    super(message, options);
    this.code = code;
  }
}

export function fromSandboxTool(tool: SandboxTool): AgentTool {
  return {
    name: tool.name,
    description: tool.description,
    inputSchema: tool.inputJsonSchema,
    pausesClock: true,
    isTraced: true,
    run: async (input, { signal, onOutput }) =>
      tool.forModel(await tool.run(input, { signal, onOutput })),
  };
}
