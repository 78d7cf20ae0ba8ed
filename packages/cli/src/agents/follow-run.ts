/** Follows a run to its end. If the command cannot follow it any longer, the run is cancelled. */
import type { FollowOptions, RunEventBody } from "@sandkasten/agents/client";
import type { Cli } from "../cli.ts";

/** How long a cancelled run may take to end: its sandboxes are closed in this time. */
const CANCEL_MS = 30_000;

export interface FollowedRun {
  readonly events: (options: FollowOptions) => AsyncIterable<RunEventBody>;
  readonly cancel: () => Promise<unknown>;
  readonly show: (event: RunEventBody) => Promise<void>;
}

/** Returns when the run has ended; also after Ctrl-C, which cancels it first. */
export async function followRun(cli: Cli, run: FollowedRun): Promise<void> {
  let cursor = 0;
  const follow = async (signal: AbortSignal, show: FollowedRun["show"]): Promise<void> => {
    for await (const event of run.events({ cursor, signal })) {
      cursor = event.seq;
      await show(event);
    }
  };
  try {
    await follow(cli.interrupts.signal, run.show);
  } catch (error) {
    await run.cancel();
    const bySignal = cli.interrupts.interruption?.kind === "signal";
    // If the output itself failed, nothing more is written.
    await follow(AbortSignal.timeout(CANCEL_MS), bySignal ? run.show : () => Promise.resolve());
    if (cli.interrupts.interruption === undefined) throw error;
  }
}
