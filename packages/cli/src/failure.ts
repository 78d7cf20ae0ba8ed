/** Failures of the command line itself, with hints. */

export class CliFailure extends Error {
  override readonly name: string = "CliFailure";
  readonly code: string;
  readonly hint: string;
  readonly exitCode: number;

  constructor(
    message: string,
    options: {
      readonly hint: string;
      readonly code?: string;
      readonly exitCode?: number;
      readonly cause?: unknown;
    },
  ) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.code = options.code ?? "CLI_FAILED";
    this.hint = options.hint;
    this.exitCode = options.exitCode ?? 1;
  }
}

/** Wrong usage of a command. */
export class UsageFailure extends CliFailure {
  override readonly name = "UsageFailure";

  constructor(message: string, hint: string) {
    super(message, { hint, code: "USAGE", exitCode: 2 });
  }
}

/** The process was asked to end, or its output is no longer read. */
export class Interrupted extends Error {
  override readonly name = "Interrupted";
  readonly by: Interruption;

  constructor(by: Interruption) {
    super(by.kind === "signal" ? `ended by ${by.signal}` : "the output is no longer read");
    this.by = by;
  }
}

export type Interruption =
  | { readonly kind: "signal"; readonly signal: "SIGINT" | "SIGTERM" | "SIGHUP" }
  | { readonly kind: "closed-pipe" };

const EXIT_CODES = { SIGHUP: 129, SIGINT: 130, SIGTERM: 143 } as const;
/** A shell's exit code for a program that wrote to a closed pipe. */
const CLOSED_PIPE_EXIT_CODE = 141;

export function exitCodeOf(by: Interruption): number {
  return by.kind === "signal" ? EXIT_CODES[by.signal] : CLOSED_PIPE_EXIT_CODE;
}
