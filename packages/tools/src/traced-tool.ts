/** A tool whose every call is recorded as a span and counted. */
import type { Span } from "@opentelemetry/api";
import { headAndTail } from "./head-and-tail.ts";
import type { SandboxPolicy } from "./policy.ts";
import type { SandboxTool, ToolCall } from "./tool.ts";
import type { SandboxToolContext } from "./tool-context.ts";
import { inSpan, markFailed, NO_EXIT_CODE } from "./tracing.ts";

/**
 * Shorter values of variables are not secrets, and redacting them would remove half of the output.
 */
const MIN_SECRET_LENGTH = 4;
const MASK = "[value of a variable]";

/** Fields of results that spans record. */
interface Told {
  readonly ok?: boolean;
  readonly runtime?: string;
  readonly status?: string;
  readonly exit_code?: number | null;
  readonly end_reason?: string;
  readonly stdout?: string;
  readonly stderr?: string;
  readonly output?: string;
  readonly stdout_bytes?: number;
  readonly stderr_bytes?: number;
  readonly artifacts?: readonly unknown[];
}

export function tracedTool<Output>(
  tool: SandboxTool<Output>,
  { traceOutputBytes }: SandboxPolicy,
  onCall: SandboxToolContext["onCall"],
): SandboxTool<Output> {
  const run = async (input: unknown, call?: ToolCall): Promise<Output> => {
    const startedMs = performance.now();
    let ok = false;
    try {
      return await inSpan(tool.name, { "sandbox.exit_code": NO_EXIT_CODE }, async (span) => {
        const output = await tool.run(input, call);
        const told = output as Told;
        ok = describe(span, told);
        if (traceOutputBytes > 0) showOutput(span, told, secretsOf(input), traceOutputBytes);
        return output;
      });
    } finally {
      onCall?.({ tool: tool.name, ok, durationMs: performance.now() - startedMs });
    }
  };
  return { ...tool, run };
}

/** Whether the call succeeded. A call that ran no command has the exit code 0. */
function describe(span: Span, told: Told): boolean {
  const { exit_code: code, end_reason: reason, artifacts, status, runtime } = told;
  const hasRun = code !== undefined && status !== "running";
  span.setAttribute("sandbox.exit_code", hasRun ? (code ?? NO_EXIT_CODE) : 0);
  span.setAttributes({
    ...(runtime !== undefined && { "sandbox.runtime": runtime }),
    ...(status !== undefined && { "sandbox.status": status }),
    ...(told.stdout_bytes !== undefined && { "sandbox.stdout_bytes": told.stdout_bytes }),
    ...(told.stderr_bytes !== undefined && { "sandbox.stderr_bytes": told.stderr_bytes }),
    ...(told.ok !== undefined && { "sandbox.artifacts_count": artifacts?.length ?? 0 }),
  });
  const ended = reason !== undefined && reason !== "exited" ? reason : undefined;
  const failure = ended ?? (hasRun && code !== 0 ? `exit code ${code}` : undefined);
  if (failure !== undefined) markFailed(span, failure);
  return failure === undefined;
}

/**
 * The output of commands, shortened.
 *
 * SECURITY: values of variables that the call set are redacted, even if the command printed them.
 * The file tools do not record contents of files; a command that prints a file does, and
 * `traceOutputBytes: 0` turns that off. Guarded by agent-telemetry.serial.test.ts.
 */
function showOutput(span: Span, told: Told, secrets: readonly string[], maxBytes: number): void {
  if (told.stdout_bytes === undefined) return;
  for (const name of ["stdout", "stderr"] as const) {
    const text = told[name];
    if (text === undefined || text === "") continue;
    const masked = secrets.reduce((shown, secret) => shown.replaceAll(secret, MASK), text);
    span.setAttribute(`sandbox.${name}`, headAndTail(masked, maxBytes).text);
  }
}

function secretsOf(input: unknown): readonly string[] {
  const { env } = (typeof input === "object" && input !== null ? input : {}) as { env?: unknown };
  if (typeof env !== "object" || env === null) return [];
  return Object.values(env)
    .filter((value) => typeof value === "string")
    .filter(({ length }) => length >= MIN_SECRET_LENGTH)
    .toSorted((one, other) => other.length - one.length);
}
