/** Maps a run's end to an exit code: 0 if it succeeded, 1 if it failed, 130 if it was cancelled. */
import type { RunFailure } from "@sandkasten/agents/client";
import type { Cli } from "../cli.ts";
import { CliFailure } from "../failure.ts";
import { plainText } from "../output/plain-text.ts";

const CANCELLED_EXIT_CODE = 130;

export interface EndedRun {
  readonly run_id: string;
  readonly status: string;
  readonly error?: RunFailure | undefined;
}

/** One line about an ended run; the reason for a failure is shown elsewhere. */
export async function showEnd({ err }: Cli, run: EndedRun, facts = ""): Promise<void> {
  if (run.status === "failed") return;
  const mark = run.status === "succeeded" ? err.style.green("✓") : err.style.yellow("!");
  const what = `${plainText(run.run_id)} ${run.status}`;
  await err.line(`${mark} ${what} ${err.style.dim(facts)}`.trimEnd());
}

/** @param hint - What to do about a failure, by its code. */
export function settle(cli: Cli, run: EndedRun, hint: (code: string) => string): void {
  if (run.status === "succeeded") return;
  if (run.status === "cancelled") {
    // A signal has its own exit code.
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
