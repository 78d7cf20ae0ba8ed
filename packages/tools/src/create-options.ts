/** The options for creating an agent's sandbox. */
import type { CreateSessionOptions } from "@sandkasten/sdk";
import { SandboxError } from "@sandkasten/sdk";
import { PACKAGE_VARIABLES } from "./packages.ts";
import type { SandboxPolicy } from "./policy.ts";
import { daemonLimits } from "./settings/daemon-limits.ts";
import type { SandboxSettings } from "./settings/parse-settings.ts";
import { ToolError, toToolError } from "./tool-error.ts";
import { checkImage, checkPackages, mayUseNetwork } from "./what-is-allowed.ts";

/** Throws `ToolError` with the code `REFUSED` if the policy does not allow the settings. */
export function createOptions(
  settings: SandboxSettings,
  policy: SandboxPolicy,
  image: string,
): CreateSessionOptions {
  checkImage(image, policy);
  checkPackages(settings, policy);
  return {
    image,
    network: mayUseNetwork(settings, policy) ? true : undefined,
    profile: settings.profile,
    limits: daemonLimits(settings),
    env: settings.pipPackages.length > 0 ? PACKAGE_VARIABLES : undefined,
  };
}

/** The failure to create a sandbox, with what a model can do about it. */
export function notCreated(error: unknown, signal: AbortSignal | undefined): ToolError {
  const failure = toToolError(error, signal);
  // An error already written for a model, or an aborted call, does not come from the daemon.
  if (error instanceof ToolError || signal?.aborted === true) return failure;
  const { code, message } = failure;
  const isOtherImage = error instanceof SandboxError && error.code === "CONFLICT";
  const hint = isOtherImage
    ? ". Leave image out to use this sandbox as it is, or give session_key for a further sandbox"
    : "";
  return new ToolError(code, `failed to create sandbox session: ${message}${hint}`, {
    cause: error,
  });
}
