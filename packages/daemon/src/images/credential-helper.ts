/** Runs Docker's credential helpers for registries: `docker-credential-<name> get`. */
import { SandboxError } from "@sandkasten/protocol";
import { systemCode } from "../system-errors.ts";
import { runTool } from "./tool.ts";
import type { ToolResult } from "./tool.ts";

export interface CredentialHelperOptions {
  /** The whole environment of the helpers, which are looked up on its PATH. */
  readonly env: Readonly<Record<string, string>>;
  readonly timeoutMs: number;
}

/** A registry's stored credentials; the user name `<token>` marks the secret as an identity token. */
export interface KeptSecret {
  readonly username: string;
  readonly secret: string;
}

const HELPER_NAME = /^[A-Za-z0-9][A-Za-z0-9._-]*$/;
const MAX_ANSWER_BYTES = 64 * 1024;
/** The only sign by which helpers say that they have nothing for a registry. */
const NOTHING_KEPT = "credentials not found";

/**
 * The helper's credentials for a registry, or undefined if it has none.
 *
 * SECURITY: a helper's output never goes into an error, since it may be a secret. The name comes
 * from a file and must not lead to a program elsewhere. Guarded by registry-credentials.test.ts.
 */
export async function askCredentialHelper(
  name: string,
  serverUrl: string,
  options: CredentialHelperOptions,
): Promise<KeptSecret | undefined> {
  if (!HELPER_NAME.test(name)) throw helperFailure(JSON.stringify(name), "has an invalid name");
  const program = `docker-credential-${name}`;
  const result = await run(program, serverUrl, options);
  const answer = result.stdout.toString("utf8");
  if (result.exitCode !== 0) {
    if (answer.includes(NOTHING_KEPT)) return undefined;
    throw helperFailure(program, describeFailure(result));
  }
  const { Username: username, Secret: secret } = parseAnswer(program, answer);
  if (typeof username !== "string" || typeof secret !== "string")
    throw helperFailure(program, "printed no user name and secret");
  return { username, secret };
}

async function run(
  program: string,
  serverUrl: string,
  { env, timeoutMs }: CredentialHelperOptions,
): Promise<ToolResult> {
  try {
    return await runTool(program, ["get"], {
      env,
      timeoutMs,
      input: serverUrl,
      maxStdoutBytes: MAX_ANSWER_BYTES,
    });
  } catch (error) {
    throw helperFailure(program, `cannot be started (${systemCode(error) ?? "unknown reason"})`);
  }
}

function describeFailure({ ended, exitCode }: ToolResult): string {
  if (ended === "timeout") return "took too long";
  return ended === "too-much-output" ? "printed too much output" : `failed with status ${exitCode}`;
}

function parseAnswer(program: string, answer: string): Readonly<Record<string, unknown>> {
  try {
    return Object(JSON.parse(answer)) as Record<string, unknown>;
  } catch {
    throw helperFailure(program, "did not print valid JSON");
  }
}

function helperFailure(program: string, what: string): SandboxError {
  return new SandboxError(
    "INTERNAL_ERROR",
    `The credential helper ${program} ${what}. Check \`credsStore\` and \`credHelpers\` in Docker's config.json, and that the helper works.`,
  );
}
