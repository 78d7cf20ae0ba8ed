/** Which tools an agent gets. */
import { CodeSandbox } from "./code/code-sandbox.ts";
import { execTool } from "./code/exec.ts";
import { openTool } from "./code/open.ts";
import { DEFAULT_POLICY } from "./policy.ts";
import type { SandboxSettings } from "./settings/parse-settings.ts";
import type { SandboxTool } from "./tool.ts";
import type { SandboxToolContext } from "./tool-context.ts";

/** Exactly the tools of the agent's mode; none without settings, or where the policy has them off. */
export function sandboxTools(
  settings: SandboxSettings | undefined,
  context: SandboxToolContext,
): readonly SandboxTool[] {
  const { policy = DEFAULT_POLICY } = context;
  if (settings === undefined || !policy.enabled) return [];
  if (settings.mode === "compute") return [];
  if (!policy.codeModeEnabled) return [];
  const sandbox = new CodeSandbox(settings, policy, context);
  return [openTool(sandbox), execTool(sandbox)];
}
