/** Emits the events that a killed daemon did not get to write. */
import type { EventHub } from "../events/event-hub.ts";
import type { ReportedEvent } from "../events/recorder.ts";
import type { StoredEvent } from "../ports/event-log.ts";
import type { ExecRow, SessionRow, SessionStore } from "../ports/session-store.ts";
import type { LiveSession } from "./live-session.ts";
import { execEnded, execStarted, sessionCreated, sessionRunning } from "./session-events.ts";

/** Events are written within milliseconds, so nothing older than this can be missing. */
const LOOK_BACK_MS = 5_000;
/** A session's last activity is stored with some delay. */
const ACTIVITY_DELAY_MS = 2_000;
const LAST_EVENTS = 2048;
const PAGE = 100;

/** What an earlier daemon left, before any of it is changed. */
export interface Left {
  /** The sessions that have not ended, or not all of their commands. */
  readonly claimed: readonly SessionRow[];
  readonly living: readonly LiveSession[];
  readonly unfinished: readonly ExecRow[];
}

/**
 * In a living session, what follows an unfinished command waits for the sandbox's word on it: the
 * command may have ended before, and its caller may have been answered.
 */
export async function recoverEvents(
  { claimed, living, unfinished }: Left,
  { store, events }: { readonly store: SessionStore; readonly events: EventHub },
): Promise<void> {
  const sessions = new Map(living.map((session) => [session.row.id, session]));
  const running = Map.groupBy(
    unfinished.filter(({ status }) => status === "running"),
    ({ sessionId }) => sessionId,
  );
  for (const row of claimed) {
    const session = sessions.get(row.id);
    const inOrder = session?.events ?? events;
    const last = await events.log.latestOf(row.id, LOOK_BACK_MS, LAST_EVENTS);
    const sinceMs = await completeUpTo(row, last, events);
    const recorded = new Set(last.map(nameOf));
    const recordOnce = (event: ReportedEvent, atMs: number): void => {
      if (atMs >= sinceMs && !recorded.has(nameOf(event))) inOrder.record({ ...event, atMs });
    };
    recordOnce(sessionCreated(row), row.createdAtMs);
    if (row.status !== "creating") recordOnce(sessionRunning(row), row.createdAtMs);
    if (row.lastActivityAtMs < sinceMs - ACTIVITY_DELAY_MS) continue;
    const execs = await execsSince(row.id, sinceMs, store);
    const recent = new Set(execs.map(({ id }) => id));
    for (const { id } of running.get(row.id) ?? [])
      if (!recent.has(id)) session?.earlierEnds.expect(id);
    for (const exec of execs) {
      recordOnce(execStarted(exec), exec.startedAtMs);
      if (exec.status === "done") recordOnce(execEnded(exec), exec.endedAtMs ?? 0);
      else if (exec.status === "running") session?.earlierEnds.expect(exec.id);
    }
  }
}

/** Before this time none of the session's events are missing, or it can no longer be determined. */
async function completeUpTo(
  { owner }: SessionRow,
  last: readonly StoredEvent[],
  { log }: EventHub,
): Promise<number> {
  const newest = last.at(-1);
  if (newest !== undefined) {
    // If there are that many events within the time, everything before them is complete as well.
    const oldestMs = last.length < LAST_EVENTS ? 0 : (last[0]?.atMs ?? 0);
    return Math.max(newest.atMs - LOOK_BACK_MS, oldestMs);
  }
  // No event was ever written, or all of them were removed.
  const { events, removedUpTo } = await log.read({ after: 0, limit: 1, owner });
  if (removedUpTo === 0) return 0;
  return (events[0]?.atMs ?? Number.POSITIVE_INFINITY) + LOOK_BACK_MS;
}

/** The oldest first. */
async function execsSince(
  sessionId: string,
  sinceMs: number,
  store: SessionStore,
): Promise<readonly ExecRow[]> {
  const found: ExecRow[] = [];
  let cursor: string | undefined;
  do {
    const page = await store.listExecs(sessionId, {
      limit: PAGE,
      ...(cursor !== undefined && { cursor }),
    });
    found.push(...page.rows);
    const isOlder = (found.at(-1)?.startedAtMs ?? 0) < sinceMs;
    cursor = isOlder || found.length >= LAST_EVENTS ? undefined : page.nextCursor;
  } while (cursor !== undefined);
  return found.toReversed();
}

function nameOf({ type, sessionId, data }: ReportedEvent | StoredEvent): string {
  return `${type} ${sessionId} ${"exec_id" in data ? data.exec_id : ""}`;
}
