/** What an agent's file says, checked. */
import type { SandboxSettings } from "@sandkasten/tools";
import type { McpServerSettings } from "./frontmatter-schema.ts";
import type { ValueCheck } from "./value-check.ts";

export interface AgentDefinition {
  /** The file's name without `.prompt`. */
  readonly name: string;
  /** `metadata.name`. */
  readonly title: string | undefined;
  readonly description: string | undefined;
  /** As messages show it: relative to the directory that is served. */
  readonly file: string;
  /** `PROVIDER/NAME`; the service's default when absent. */
  readonly model: string | undefined;
  readonly config: Readonly<Record<string, unknown>>;
  readonly input: ValueCheck | undefined;
  readonly inputDefault: Readonly<Record<string, unknown>>;
  readonly output: ValueCheck | undefined;
  readonly outputFormat: "json" | "text";
  readonly sandbox: SandboxSettings | undefined;
  /** Tools of MCP servers that may be used; undefined for all. */
  readonly tools: readonly string[] | undefined;
  readonly agents: readonly string[];
  readonly mcp: Readonly<Record<string, McpServerSettings>>;
  readonly maxSteps: number;
  readonly timeoutSeconds: number;
  readonly template: string;
}
