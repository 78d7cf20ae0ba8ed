/** Turns the core's reports into spans and the log lines that belong to them. */
import type { OpenSpan, StartedTelemetry } from "@sandkasten/telemetry";
import { idsOf } from "@sandkasten/telemetry";
import type { Log } from "../ports/log.ts";
import type {
  ExecFacts,
  ExecObservation,
  ExecOutcome,
  SessionFacts,
  SessionObservation,
  Telemetry,
  TraceContext,
} from "../ports/telemetry.ts";

export interface DaemonTelemetryParts {
  readonly log: Log;
  /** Absent when no spans are sent. */
  readonly spans?: StartedTelemetry | undefined;
}

export class DaemonTelemetry implements Telemetry {
  readonly #parts: DaemonTelemetryParts;

  constructor(parts: DaemonTelemetryParts) {
    this.#parts = parts;
  }

  /**
   * SECURITY: spans and log lines contain neither the command nor its environment, input or output:
   * those can hold secrets, and belong to a tenant while telemetry belongs to the operator. Guarded
   * by telemetry.test.ts.
   */
  execStarted(facts: ExecFacts, parent?: TraceContext): ExecObservation {
    const { log, spans } = this.#parts;
    const span = spans?.startSpan("sandbox.exec", {
      parent,
      startedAtMs: facts.startedAtMs,
      attributes: {
        "sandbox.runtime": facts.runtime,
        "sandbox.image": facts.image,
        "sandbox.timeout_seconds":
          facts.timeoutMs === undefined ? undefined : facts.timeoutMs / 1000,
        "sandbox.session_id": facts.sessionId,
        "sandbox.exec_id": facts.execId,
      },
    });
    const trace = span?.context ?? parent;
    const line = {
      run_id: facts.execId,
      session_id: facts.sessionId,
      runtime: facts.runtime,
      image: facts.image,
      ...traceFields(trace),
    };
    log.info({ event: "sandbox_run_started", ...line }, "sandbox_run_started");
    return { trace, ended: (outcome) => this.#execEnded(line, span, outcome) };
  }

  sessionStarted(facts: SessionFacts, parent?: TraceContext): SessionObservation {
    const span = this.#parts.spans?.startSpan("sandbox.create", {
      parent,
      attributes: {
        "sandbox.image": facts.image,
        "sandbox.backend": facts.backend,
        "sandbox.session_id": facts.sessionId,
      },
    });
    return {
      created: (source) => span?.end({ attributes: { "sandbox.source": source } }),
      failed: (error) => span?.end({ error }),
    };
  }

  #execEnded(
    line: Readonly<Record<string, unknown>>,
    span: OpenSpan | undefined,
    outcome: ExecOutcome | undefined,
  ): void {
    if (outcome === undefined)
      return span?.end({ attributes: { "sandbox.end_reason": "released" } });
    const { endReason, exitCode, stdoutBytes, stderrBytes, durationMs } = outcome;
    const ok = endReason === "exited" && exitCode === 0;
    const { log } = this.#parts;
    span?.end({
      attributes: {
        "sandbox.exit_code": exitCode,
        "sandbox.end_reason": endReason,
        "sandbox.stdout_bytes": stdoutBytes,
        "sandbox.stderr_bytes": stderrBytes,
      },
      error: ok ? undefined : failureText(endReason, exitCode),
    });
    log.info(
      {
        event: "sandbox_run_finished",
        ...line,
        duration_ms: durationMs,
        exit_code: exitCode ?? null,
        end_reason: endReason,
        stdout_bytes: stdoutBytes,
        stderr_bytes: stderrBytes,
        ok,
      },
      "sandbox_run_finished",
    );
  }
}

function failureText(endReason: string, exitCode: number | undefined): string {
  return endReason === "exited" ? `exit code ${exitCode}` : endReason;
}

function traceFields(trace: TraceContext | undefined): {
  readonly trace_id?: string;
  readonly span_id?: string;
} {
  if (trace === undefined) return {};
  const { traceId, spanId } = idsOf(trace);
  return { trace_id: traceId, span_id: spanId };
}
