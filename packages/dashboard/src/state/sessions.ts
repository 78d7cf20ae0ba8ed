/** All sessions of the key, kept up to date by events. */
import { computed, effect, signal } from "@preact/signals";
import { type SandboxClient, SandboxError, type SessionInfo } from "@sandkasten/sdk";
import { connection, onFeedOpened } from "./connection.ts";
import { onEvent } from "./feed.ts";

/** Sessions that ended long ago are not shown here. */
const MOST_SESSIONS = 2000;
const PAGE_SIZE = 200;
const BATCH_MS = 60;
/** Beyond this number, one list is less work for the daemon than single sessions. */
const MOST_SINGLE_READS = 20;

const byId = signal<ReadonlyMap<string, SessionInfo>>(new Map());
export const areSessionsLoaded = signal(false);
export const sessionsFailure = signal<unknown>(undefined);

/** Active sessions first; newest first in each group. */
export const sessions = computed(() =>
  [...byId.value.values()].toSorted(
    (one, other) =>
      Number(isOver(one)) - Number(isOver(other)) || other.createdAt.localeCompare(one.createdAt),
  ),
);

export function isOver({ endedAt, status }: SessionInfo): boolean {
  return endedAt !== undefined || !["creating", "running", "paused"].includes(status);
}

export const sessionById = (id: string): SessionInfo | undefined => byId.value.get(id);

export function learnSession(info: SessionInfo): void {
  byId.value = new Map(byId.peek()).set(info.id, info);
}

export function startSessions(): void {
  const stale = new Set<string>();
  let timer: ReturnType<typeof setTimeout> | undefined;
  let reading: AbortController | undefined;

  effect(() => {
    if (connection.value !== undefined) return;
    reading?.abort();
    byId.value = new Map();
    areSessionsLoaded.value = false;
  });
  // The feed opens before the list is loaded, so no change is missed in between.
  onFeedOpened(() => {
    if (!areSessionsLoaded.peek()) void readAll();
  });
  onEvent(({ type, sessionId }) => {
    if (type === "gap") void readAll();
    if (sessionId === undefined || !type.startsWith("session.")) return;
    stale.add(sessionId);
    timer ??= setTimeout(readStale, BATCH_MS);
  });

  function readStale(): void {
    timer = undefined;
    const ids = [...stale];
    stale.clear();
    if (ids.length > MOST_SINGLE_READS) void readAll();
    else for (const id of ids) void readOne(id);
  }

  async function readOne(id: string): Promise<void> {
    const client = connection.peek()?.client;
    try {
      const session = await client?.getSession(id);
      if (session !== undefined && connection.peek()?.client === client)
        learnSession(session.lastInfo);
    } catch (error) {
      // An administrator gets events of other owners' sessions, which are not in this list.
      if (!(error instanceof SandboxError) || error.status !== 404) sessionsFailure.value = error;
    }
  }

  async function readAll(): Promise<void> {
    const client = connection.peek()?.client;
    if (client === undefined) return;
    reading?.abort();
    reading = new AbortController();
    const { signal: stopped } = reading;
    try {
      await readPages(client, stopped);
      sessionsFailure.value = undefined;
    } catch (error) {
      if (!stopped.aborted) sessionsFailure.value = error;
    }
  }
}

async function readPages(client: SandboxClient, stopped: AbortSignal): Promise<void> {
  const found = new Map<string, SessionInfo>();
  let cursor: string | undefined;
  do {
    const page = await client.listSessions({ limit: PAGE_SIZE, cursor, signal: stopped });
    for (const info of page) found.set(info.id, info);
    // The first page contains everything that fits on a screen.
    if (cursor === undefined) byId.value = new Map([...byId.peek(), ...found]);
    areSessionsLoaded.value = true;
    cursor = page.nextCursor;
  } while (cursor !== undefined && found.size < MOST_SESSIONS);
  byId.value = found;
}
