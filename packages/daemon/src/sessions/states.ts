/** The allowed state transitions of a session. */
import { SandboxError } from "@sandkasten/protocol";
import type { SessionStatus } from "@sandkasten/protocol";

const FOLLOWERS: Readonly<Record<SessionStatus, readonly SessionStatus[]>> = {
  creating: ["running", "failed", "destroying"],
  running: ["paused", "destroying"],
  paused: ["running", "destroying"],
  destroying: ["destroyed", "expired", "crashed", "failed"],
  destroyed: [],
  expired: [],
  crashed: [],
  failed: [],
};

/** How a session can end. */
export type EndStatus = Extract<SessionStatus, "destroyed" | "expired" | "crashed" | "failed">;

/** Why a session failed that a daemon was creating when it ended. */
export const UNFINISHED = "the daemon ended while it was being created";

/** Whether the session may still have a sandbox in the backend. */
export function isLiving(status: SessionStatus): boolean {
  return FOLLOWERS[status].length > 0;
}

/** Whether the session has a live sandbox, as far as known. */
export function isUp(status: SessionStatus): boolean {
  return status === "running" || status === "paused";
}

export function checkTransition(id: string, from: SessionStatus, to: SessionStatus): void {
  if (FOLLOWERS[from].includes(to)) return;
  throw new SandboxError(
    "CONFLICT",
    `session ${id} is ${from} and cannot become ${to}; ${advice(from)}`,
    { details: { status: from } },
  );
}

/** Why a session that is not running cannot be used, and what to do. */
export function unusable(id: string, status: SessionStatus, endReason?: string): SandboxError {
  const details = { status };
  const why = endReason === undefined ? "" : ` (${endReason})`;
  switch (status) {
    case "expired":
      return new SandboxError(
        "SESSION_EXPIRED",
        `session ${id} has expired${why}; open a new one`,
        { details },
      );
    case "destroying":
    case "destroyed":
      return new SandboxError("SESSION_NOT_FOUND", `session ${id} was destroyed; open a new one`, {
        details,
      });
    case "creating":
    case "running":
    case "paused":
    case "crashed":
    case "failed":
      return new SandboxError("CONFLICT", `session ${id} is ${status}${why}; ${advice(status)}`, {
        details,
      });
  }
}

function advice(status: SessionStatus): string {
  if (status === "creating") return "wait until it is running";
  if (status === "running") return "it can be used";
  if (status === "paused") return "resume it first";
  return "open a new one";
}
