/** Asks the programs that keep registry credentials for Docker: `docker-credential-<name> get`. */
import { SandboxError } from "@sandkasten/protocol";
import { systemCode } from "./image-failure.ts";
import { runTool } from "./tool.ts";
import type { ToolResult } from "./tool.ts";

export interface CredentialHelperOptions {
  /** All they get to see of an environment; they are looked for on its PATH. */
  readonly env: Readonly<Record<string, string>>;
  readonly timeoutMs: number;
}

/** What a helper keeps for a registry; a user name of `<token>` marks the secret as an identity token. */
export interface KeptSecret {
  readonly username: string;
  readonly secret: string;
}

const HELPER_NAME = /^[A-Za-z0-9][A-Za-z0-9._-]*$/;
const MAX_ANSWER_BYTES = 64 * 1024;
/** What helpers print, without any other sign, when they have nothing for a registry. */
const NOTHING_KEPT = "credentials not found";

/**
 * What the helper has for a registry, or undefined when it has nothing.
 *
 * SECURITY: nothing that a helper prints goes into an error, for it may be a secret. The name comes
 * from a file and must not lead to a program elsewhere. Guarded by registry-credentials.test.ts.
 */
export async function askCredentialHelper(
  name: string,
  serverUrl: string,
  options: CredentialHelperOptions,
): Promise<KeptSecret | undefined> {
  if (!HELPER_NAME.test(name)) throw helperFailure(JSON.stringify(name), "has no proper name");
  const program = `docker-credential-${name}`;
  const result = await run(program, serverUrl, options);
  const answer = result.stdout.toString("utf8");
  if (result.exitCode !== 0) {
    if (answer.includes(NOTHING_KEPT)) return undefined;
    throw helperFailure(program, complaint(result));
  }
  const { Username: username, Secret: secret } = parseAnswer(program, answer);
  if (typeof username !== "string" || typeof secret !== "string")
    throw helperFailure(program, "answered without a user name and a secret");
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

function complaint({ ended, exitCode }: ToolResult): string {
  if (ended === "timeout") return "took too long";
  return ended === "too-much-output" ? "says too much" : `failed with status ${exitCode}`;
}

function parseAnswer(program: string, answer: string): Readonly<Record<string, unknown>> {
  try {
    return Object(JSON.parse(answer)) as Record<string, unknown>;
  } catch {
    throw helperFailure(program, "answered something that is no JSON");
  }
}

function helperFailure(program: string, what: string): SandboxError {
  return new SandboxError(
    "INTERNAL_ERROR",
    `The credential helper ${program} ${what}. Check \`credsStore\` and \`credHelpers\` in Docker's config.json, and that the helper works.`,
  );
}
