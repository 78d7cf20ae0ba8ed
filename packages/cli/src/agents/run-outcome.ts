/** Makes an exit code of a run's end: 0 when it succeeded, 1 when it failed, 130 when it was cancelled. */
import type { RunFailure } from "@sandkasten/agents/client";
import type { Cli } from "../cli.ts";
import { CliFailure } from "../failure.ts";

const CANCELLED_EXIT_CODE = 130;

export interface EndedRun {
  readonly run_id: string;
  readonly status: string;
  readonly error?: RunFailure | undefined;
}

/** @param hint - What to do about a failure, by its code. */
export function settle(cli: Cli, run: EndedRun, hint: (code: string) => string): void {
  if (run.status === "succeeded") return;
  if (run.status === "cancelled") {
    // A signal has an exit code of its own.
    cli.interrupts.signal.throwIfAborted();
    cli.exitWith(CANCELLED_EXIT_CODE);
    return;
  }
  const { code, message } = run.error ?? {
    code: "RUN_FAILED",
    message: `The run ended as ${run.status}.`,
  };
  throw new CliFailure(message, { hint: hint(code), code });
}
