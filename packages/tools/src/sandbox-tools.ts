/** Which tools an agent gets. */
import { CodeSandbox } from "./code/code-sandbox.ts";
import { closeTool } from "./code/close.ts";
import { execReadTool } from "./code/exec-read.ts";
import { execWaitTool } from "./code/exec-wait.ts";
import { execTool } from "./code/exec.ts";
import { fsDeleteTool } from "./code/fs-delete.ts";
import { fsListTool } from "./code/fs-list.ts";
import { fsReadTool } from "./code/fs-read.ts";
import { fsWriteTool } from "./code/fs-write.ts";
import { openTool } from "./code/open.ts";
import { publishFileTool } from "./code/publish-file.ts";
import { stageFileTool } from "./code/stage-file.ts";
import { runTool } from "./compute/run.ts";
import { DEFAULT_POLICY } from "./policy.ts";
import type { SandboxPolicy } from "./policy.ts";
import type { SandboxSettings } from "./settings/parse-settings.ts";
import type { SandboxTool } from "./tool.ts";
import type { SandboxToolContext } from "./tool-context.ts";
import { tracedTool } from "./traced-tool.ts";

/** Exactly the tools of the agent's mode; none without settings, or if the policy disables them. */
export function sandboxTools(
  settings: SandboxSettings | undefined,
  context: SandboxToolContext,
): readonly SandboxTool[] {
  const { policy = DEFAULT_POLICY, onCall } = context;
  if (settings === undefined || !policy.enabled) return [];
  const tools =
    settings.mode === "compute"
      ? [runTool(settings, policy, context)]
      : codeTools(settings, policy, context);
  return tools.map((tool) => tracedTool(tool, policy, onCall));
}

function codeTools(
  settings: SandboxSettings,
  policy: SandboxPolicy,
  context: SandboxToolContext,
): readonly SandboxTool[] {
  if (!policy.codeModeEnabled) return [];
  const sandbox = new CodeSandbox(settings, policy, context);
  const { fileStore } = context;
  return [
    openTool(sandbox),
    execTool(sandbox),
    execReadTool(sandbox),
    execWaitTool(sandbox),
    fsWriteTool(sandbox),
    fsReadTool(sandbox),
    fsListTool(sandbox),
    fsDeleteTool(sandbox),
    closeTool(sandbox),
    ...(fileStore === undefined
      ? []
      : [stageFileTool(sandbox, fileStore), publishFileTool(sandbox, fileStore)]),
  ];
}
