/** The port through which the core reports commands and sessions to traces, and commands to the log with them. */

/** A place in a trace, as the W3C headers `traceparent` and `tracestate` give it. */
export interface TraceContext {
  readonly traceparent: string;
  readonly tracestate?: string;
}

/** What is known of a command when it begins. Nothing of its text, input or environment. */
export interface ExecFacts {
  readonly execId: string;
  readonly sessionId: string;
  /** What interprets it: `python`, `node`, `bash`, or `other`. */
  readonly runtime: string;
  readonly image: string;
  readonly timeoutMs?: number | undefined;
  /** In the past for a command that an earlier daemon began. */
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
  /** Handed to the command; the caller's own when the daemon keeps no traces. */
  readonly trace: TraceContext | undefined;
  /** Called once; without an outcome for a command that goes on in the next daemon. */
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
  /** `error` is the code of the failure. */
  failed(error: string): void;
}

export interface Telemetry {
  execStarted(facts: ExecFacts, parent?: TraceContext): ExecObservation;
  sessionStarted(facts: SessionFacts, parent?: TraceContext): SessionObservation;
}

/** Reports nothing, and lets commands see their caller's trace. */
export const NO_TELEMETRY: Telemetry = {
  execStarted: (_facts, parent) => ({ trace: parent, ended: () => undefined }),
  sessionStarted: () => ({ created: () => undefined, failed: () => undefined }),
};
