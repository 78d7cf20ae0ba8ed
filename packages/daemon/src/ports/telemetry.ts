/** The port through which the core reports commands and sessions to traces and the log. */

/** A position in a trace, as in the W3C headers `traceparent` and `tracestate`. */
export interface TraceContext {
  readonly traceparent: string;
  readonly tracestate?: string;
}

/** What is known about a command when it begins. Excludes its text, input and environment. */
export interface ExecFacts {
  readonly execId: string;
  readonly sessionId: string;
  /** The interpreter: `python`, `node`, `bash`, or `other`. */
  readonly runtime: string;
  readonly image: string;
  readonly timeoutMs?: number | undefined;
  /** In the past for a command that an earlier daemon started. */
  readonly startedAtMs: number;
}

export interface ExecOutcome {
  readonly endReason: string;
  readonly exitCode?: number | undefined;
  readonly stdoutBytes: number;
  readonly stderrBytes: number;
  readonly durationMs: number;
}

/** A command that was reported and has not ended. */
export interface ExecObservation {
  /** Passed to the command; the caller's context if the daemon does not trace. */
  readonly trace: TraceContext | undefined;
  /** Called once; without an outcome for a command that continues under the next daemon. */
  ended(outcome: ExecOutcome | undefined): void;
}

export interface SessionFacts {
  readonly sessionId: string;
  readonly backend: string;
  readonly image: string;
}

/** A session that is being created. */
export interface SessionObservation {
  created(source: "pool" | "cold"): void;
  /** `error` is the error code. */
  failed(error: string): void;
}

export interface Telemetry {
  execStarted(facts: ExecFacts, parent?: TraceContext): ExecObservation;
  sessionStarted(facts: SessionFacts, parent?: TraceContext): SessionObservation;
}

/** Reports nothing, and passes the caller's trace on to commands. */
export const NO_TELEMETRY: Telemetry = {
  execStarted: (_facts, parent) => ({ trace: parent, ended: () => undefined }),
  sessionStarted: () => ({ created: () => undefined, failed: () => undefined }),
};
