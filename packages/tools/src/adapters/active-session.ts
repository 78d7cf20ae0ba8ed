/** Sessions that can still be used. */
import { SandboxError, type Session, type ShownStatus } from "@sandkasten/sdk";

const ACTIVE: ReadonlySet<ShownStatus> = new Set(["creating", "running", "paused", "unreachable"]);

export function isActive(status: ShownStatus): boolean {
  return ACTIVE.has(status);
}

/** The result of a call for a session, or undefined if it has ended or is unknown. */
export async function unlessEnded(call: Promise<Session>): Promise<Session | undefined> {
  try {
    const session = await call;
    return isActive(session.status) ? session : undefined;
  } catch (error) {
    if (error instanceof SandboxError && error.code === "SESSION_NOT_FOUND") return undefined;
    throw error;
  }
}
