/** The checked content of an agent's file. */
import type { SandboxSettings } from "@sandkasten/tools";
import type { McpServerSettings } from "./frontmatter-schema.ts";
import type { ValueCheck } from "./value-check.ts";

export interface AgentDefinition {
  /** The file's name without `.prompt`. */
  readonly name: string;
  /** `metadata.name`. */
  readonly title: string | undefined;
  readonly description: string | undefined;
  /** As messages show it: relative to the served directory. */
  readonly file: string;
  /** `PROVIDER/NAME`; the service's default if absent. */
  readonly model: string | undefined;
  readonly config: Readonly<Record<string, unknown>>;
  readonly input: ValueCheck | undefined;
  readonly inputDefault: Readonly<Record<string, unknown>>;
  readonly output: ValueCheck | undefined;
  readonly outputFormat: "json" | "text";
  readonly sandbox: SandboxSettings | undefined;
  /** The tools of MCP servers that may be used; undefined for all. */
  readonly tools: readonly string[] | undefined;
  readonly agents: readonly string[];
  readonly mcp: Readonly<Record<string, McpServerSettings>>;
  readonly maxSteps: number;
  readonly timeoutSeconds: number;
  readonly template: string;
}
