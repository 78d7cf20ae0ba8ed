/** The `sandbox_*` tools for AI agents, independent of any framework. */
export { DirectoryFileStore, type FileStore } from "./file-store.ts";
export { DEFAULT_POLICY, type SandboxPolicy } from "./policy.ts";
export { POLICY_VARIABLES, policyFromEnvironment } from "./policy-from-environment.ts";
export { nearestName } from "./nearest-name.ts";
export { sandboxTools } from "./sandbox-tools.ts";
export { SandboxScope, type SandboxScopeOptions } from "./scope/sandbox-scope.ts";
export {
  parseSandboxSettings,
  type SandboxLimits,
  type SandboxSettings,
} from "./settings/parse-settings.ts";
export { sandboxSettingsSchema, type SettingsObject } from "./settings/schema.ts";
export { SettingsError } from "./settings/settings-error.ts";
export type { Language } from "./settings/runtimes.ts";
export type { EndedCall, SandboxToolContext, ToolLog } from "./tool-context.ts";
export type { JsonSchema, OutputPiece, SandboxTool, ToolCall } from "./tool.ts";
export { ToolError, type ToolErrorCode } from "./tool-error.ts";
