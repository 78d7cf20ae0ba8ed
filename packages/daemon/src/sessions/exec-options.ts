/** What the sandbox is told of a command besides its text. */
import type { ExecOptions } from "../ports/channel.ts";
import type { ExecRow } from "../ports/session-store.ts";
import type { TraceContext } from "../ports/telemetry.ts";
import type { StartExecOptions } from "./services/exec-service.ts";

export function execOptions(
  { id, timeoutMs }: ExecRow,
  options: StartExecOptions,
  trace: TraceContext | undefined,
  maxTimeoutMs: number,
): ExecOptions {
  const { cwd, stdin, merge, idleTimeoutMs } = options;
  const env = withTrace(options.env, trace);
  return {
    execId: id,
    ...(timeoutMs !== undefined && { timeoutMs }),
    ...(cwd !== undefined && { cwd }),
    ...(env !== undefined && { env }),
    ...(stdin !== undefined && { stdin: true }),
    ...(merge !== undefined && { merge }),
    ...(idleTimeoutMs !== undefined &&
      idleTimeoutMs > 0 && { idleTimeoutMs: Math.min(idleTimeoutMs, maxTimeoutMs) }),
  };
}

/** Passes the trace in `TRACEPARENT`, unless the caller sets it. */
function withTrace(
  env: StartExecOptions["env"],
  trace: TraceContext | undefined,
): StartExecOptions["env"] {
  return trace === undefined ? env : { TRACEPARENT: trace.traceparent, ...env };
}
