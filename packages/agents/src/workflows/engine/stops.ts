/** The ways in which a step or a run ends without a result. */

export interface Failure {
  readonly code: string;
  /** What happened and what to do. */
  readonly message: string;
  /** The id of the step that failed first. */
  readonly step?: string | undefined;
}

/** A step failed; a try step around it can catch this. */
export class StepFailure extends Error {
  override readonly name = "StepFailure";
  readonly failure: Failure;
  /** No try step may catch it: the run is over. */
  readonly isFatal: boolean;

  constructor(
    failure: Failure,
    options: { readonly isFatal?: boolean; readonly cause?: unknown } = {},
  ) {
    super(failure.message, { cause: options.cause });
    this.failure = failure;
    this.isFatal = options.isFatal ?? false;
  }
}

/** A step was stopped because another one failed or because a step around it took too long. */
export class StepStopped extends Error {
  override readonly name = "StepStopped";
}

export type StopKind =
  /** A person cancelled the run. */
  | "cancelled"
  /** Another process has the run now; this one must not write to it. */
  | "lost"
  /** This process ends; another one continues the run. */
  | "shutdown"
  /** Only a person can decide how to continue; the message says why. */
  | "attention";

/** The whole run stops in this process. No step may catch it. */
export class RunStop extends Error {
  override readonly name = "RunStop";
  readonly kind: StopKind;

  constructor(kind: StopKind, message: string = kind) {
    super(message);
    this.kind = kind;
  }
}
