/** Installs the packages that an agent's settings name, in a new sandbox. */
import type { Session } from "@sandkasten/sdk";
import type { SandboxPolicy } from "./policy.ts";
import { pythonCommand } from "./programs.ts";
import { runCommand } from "./run-command.ts";
import { WORKSPACE } from "./sandbox-paths.ts";
import type { SandboxSettings } from "./settings/parse-settings.ts";
import type { ToolCall } from "./tool.ts";
import { ToolError } from "./tool-error.ts";

const PYTHON_PACKAGES = `${WORKSPACE}/.packages/python`;
const INSTALL_TIMEOUT_SECONDS = 600;
const CAPS = { stdoutBytes: 8192, stderrBytes: 8192 };

/** Lets every command of the sandbox find the packages that pip installed. */
export const PACKAGE_VARIABLES = { PYTHONPATH: PYTHON_PACKAGES };

/** The system of a sandbox is read-only, so packages are installed in the workspace. */
export function pipCommand(packages: readonly string[]): readonly string[] {
  const options = ["--no-input", "--disable-pip-version-check", "--no-cache-dir", "--quiet"];
  return pythonCommand([
    "-m",
    "pip",
    "install",
    ...options,
    "--target",
    PYTHON_PACKAGES,
    // Everything after it is a package, even if it looks like an option.
    "--",
    ...packages,
  ]);
}

/** Node looks for `node_modules` next to the program. */
export function npmCommand(packages: readonly string[]): readonly string[] {
  const options = ["--no-save", "--no-audit", "--no-fund", "--loglevel=error"];
  return [
    "npm",
    "install",
    ...options,
    "--cache=/tmp/npm-cache",
    `--prefix=${WORKSPACE}`,
    "--",
    ...packages,
  ];
}

export async function installPackages(
  session: Session,
  { pipPackages, npmPackages }: SandboxSettings,
  policy: SandboxPolicy,
  call: ToolCall,
): Promise<void> {
  if (pipPackages.length > 0)
    await install(session, "pip_packages", pipCommand(pipPackages), policy, call);
  if (npmPackages.length > 0)
    await install(session, "npm_packages", npmCommand(npmPackages), policy, call);
}

async function install(
  session: Session,
  what: string,
  argv: readonly string[],
  { maxTimeoutSeconds }: SandboxPolicy,
  call: ToolCall,
): Promise<void> {
  const timeoutMs = Math.min(INSTALL_TIMEOUT_SECONDS, maxTimeoutSeconds) * 1000;
  const { exitCode, stderr, timedOut } = await runCommand(session, argv, { timeoutMs }, CAPS, call);
  if (exitCode === 0) return;
  const how = timedOut ? `took longer than ${timeoutMs / 1000} s` : `exit code ${exitCode}`;
  throw new ToolError(
    "SANDBOX_FAILED",
    `${what} could not be installed (${how}): ${stderr.trim()}`,
  );
}
