/** Brings memory, store and backend together after a start: living sandboxes are adopted, remains removed. */
import { SandboxError } from "@sandkasten/protocol";
import type { Backend, SandboxState } from "../ports/backend.ts";
import type { Clock } from "../ports/clock.ts";
import type { ExecJournal } from "../ports/exec-journal.ts";
import type { Log } from "../ports/log.ts";
import type { ExecRow, SessionRow, SessionStore } from "../ports/session-store.ts";
import type { Execs } from "./execs.ts";
import { LiveSession } from "./live-session.ts";
import type { SessionTable } from "./session-table.ts";
import type { EndStatus, Sessions } from "./sessions.ts";

export interface ReconcileParts {
  readonly backend: Backend;
  readonly store: SessionStore;
  readonly journal: ExecJournal;
  readonly clock: Clock;
  readonly log: Log;
  readonly table: SessionTable;
  readonly sessions: Sessions;
  readonly execs: Execs;
}

export interface Reconciled {
  readonly adopted: number;
  readonly ended: number;
  readonly orphans: number;
}

export async function reconcile(parts: ReconcileParts): Promise<Reconciled> {
  const { backend, store } = parts;
  const states = new Map((await backend.list()).map(({ id, state }) => [id, state]));
  refuseForeign(parts, states);
  const rows = await store.livingSessions();
  let adopted = 0;
  for (const row of rows) {
    if (await takeOver(parts, row, states.get(row.sandboxId ?? ""))) adopted++;
    states.delete(row.sandboxId ?? "");
  }
  for (const id of states.keys()) await removeOrphan(parts, id);
  for (const exec of await store.unfinishedExecs()) await continueExec(parts, exec);
  await removeOldJournals(parts);
  await store.settle();
  return { adopted, ended: rows.length - adopted, orphans: states.size };
}

/**
 * SECURITY: an empty store beside living sandboxes is more likely a lost database than a reason to
 * destroy them all (threat 64). Guarded by "refuses to start" in tests/torture/daemon-faults.test.ts.
 */
function refuseForeign({ store }: ReconcileParts, states: ReadonlyMap<string, SandboxState>): void {
  const living = [...states.values()].filter((state) => state !== "dead");
  if (!store.isNew || living.length === 0) return;
  throw new SandboxError(
    "CONFLICT",
    `the database is new, yet ${living.length} sandboxes live in the data directory; ` +
      "restore the database, or remove the sandboxes with `sandkasten sweep --yes`",
  );
}

/** True when the session lives on. */
async function takeOver(
  parts: ReconcileParts,
  row: SessionRow,
  state: SandboxState | undefined,
): Promise<boolean> {
  const session = new LiveSession(row, parts);
  session.made.resolve();
  parts.table.add(session);
  const alive = state === "running" || state === "paused";
  if ((row.status === "running" || row.status === "paused") && alive) {
    if (row.status !== state) await session.save({ status: state });
    return true;
  }
  const [status, reason] = endOf(row);
  try {
    await parts.sessions.end(session, status, reason);
  } catch (error) {
    // It stays in the table as `destroying`, and the reaper tries again.
    parts.log.error({ err: error, session: row.id }, "cannot clean up a session");
  }
  return false;
}

function endOf({ status }: SessionRow): [EndStatus, string | undefined] {
  if (status === "creating") return ["failed", "the daemon ended while it was made"];
  if (status === "destroying") return ["destroyed", undefined];
  return ["crashed", "its sandbox was gone when the daemon came back"];
}

async function removeOrphan({ backend, log }: ReconcileParts, id: string): Promise<void> {
  try {
    await backend.destroy(id);
    log.info({ sandbox: id }, "removed a sandbox that belongs to no session");
  } catch (error) {
    log.error({ err: error, sandbox: id }, "cannot remove a sandbox that belongs to no session");
  }
}

async function continueExec({ table, store, execs, clock }: ReconcileParts, row: ExecRow) {
  const session = table.get(row.sessionId);
  if (session !== undefined && session.ending === undefined) {
    await execs.adopt(session, row);
    return;
  }
  await store.updateExec(row.id, {
    status: "done",
    endReason: "sandbox_gone",
    endedAtMs: clock.nowMs(),
    durationMs: Math.max(0, clock.nowMs() - row.startedAtMs),
  });
}

async function removeOldJournals({ store, journal }: ReconcileParts): Promise<void> {
  for (const id of await journal.sessions())
    if ((await store.getSession(id)) === undefined) await journal.remove(id);
}
