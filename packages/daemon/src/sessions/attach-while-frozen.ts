/** Continues a command in a sandbox that may be silent for a while. */
import { setTimeout as sleep } from "node:timers/promises";
import { SandboxError } from "@sandkasten/protocol";
import { ObservedDeadline } from "../observed-deadline.ts";
import type { ExecStream } from "../ports/channel.ts";

/** How long to wait for a silent sandbox, unless the command's timeout expires first. */
const FROZEN_MS = 600_000;
const END_GRACE_MS = 10_000;
const ATTACH_PAUSE_MS = 250;

/** Retries while the sandbox exists but is silent: a frozen one may resume, and its command continues. */
export async function attachWhileFrozen(
  attach: () => Promise<ExecStream>,
  timeoutMs: number | undefined,
  isGivenUp: () => boolean,
): Promise<ExecStream> {
  let isOver = false;
  const deadline = new ObservedDeadline(
    Math.min(FROZEN_MS, (timeoutMs ?? FROZEN_MS) + END_GRACE_MS),
    () => (isOver = true),
  );
  try {
    for (;;) {
      try {
        return await attach();
      } catch (error) {
        if (!isSilence(error) || isOver || isGivenUp()) throw error;
      }
      await sleep(ATTACH_PAUSE_MS);
    }
  } finally {
    deadline.stop();
  }
}

/** Whether the sandbox exists but does not respond. */
function isSilence(error: unknown): boolean {
  return error instanceof SandboxError && error.details?.["reason"] === "unresponsive";
}
