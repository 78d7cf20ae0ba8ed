/** What goes wrong in the command line itself, and what the user can do about it. */

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

/** The command was given in a form that it does not have. */
export class UsageFailure extends CliFailure {
  override readonly name = "UsageFailure";

  constructor(message: string, hint: string) {
    super(message, { hint, code: "USAGE", exitCode: 2 });
  }
}

/** Someone asked the process to end, or nobody reads its output any more. */
export class Interrupted extends Error {
  override readonly name = "Interrupted";
  readonly by: Interruption;

  constructor(by: Interruption) {
    super(by.kind === "signal" ? `ended by ${by.signal}` : "nobody reads the output any more");
    this.by = by;
  }
}

export type Interruption =
  | { readonly kind: "signal"; readonly signal: "SIGINT" | "SIGTERM" | "SIGHUP" }
  | { readonly kind: "closed-pipe" };

const EXIT_CODES = { SIGHUP: 129, SIGINT: 130, SIGTERM: 143 } as const;
/** What a shell reports of a program that wrote to a pipe nobody reads. */
const CLOSED_PIPE_EXIT_CODE = 141;

export function exitCodeOf(by: Interruption): number {
  return by.kind === "signal" ? EXIT_CODES[by.signal] : CLOSED_PIPE_EXIT_CODE;
}
