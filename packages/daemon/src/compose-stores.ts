/**
 * Chooses where sessions, output, events and keys are stored: in this daemon's files, or in a
 * shared database.
 */
import { join } from "node:path";
import type { Config } from "./config/config.ts";
import { FileExecJournal } from "./journal/file-exec-journal.ts";
import type { EventLog } from "./ports/event-log.ts";
import type { ExecJournal } from "./ports/exec-journal.ts";
import type { KeyStore } from "./ports/key-store.ts";
import type { Log } from "./ports/log.ts";
import type { SessionStore } from "./ports/session-store.ts";
import { SqliteEventLog } from "./store/sqlite/sqlite-event-log.ts";
import { SqliteKeyStore } from "./store/sqlite/sqlite-key-store.ts";
import { SqliteSessionStore } from "./store/sqlite/sqlite-session-store.ts";

export interface Stores {
  readonly store: SessionStore;
  readonly journal: ExecJournal;
  readonly eventLog: EventLog;
  readonly keyStore: KeyStore;
  /** Identifies the daemons that share a database; absent if this daemon has its own. */
  readonly instance?: string;
  /** Closes all stores. Use it only if nothing was built on top of them. */
  close(): Promise<void>;
}

/** `fence` is this daemon's token in the store, once it has one. */
export async function composeStores(
  config: Config,
  log: Log,
  fence: () => number,
): Promise<Stores> {
  const { databaseUrl: url } = config;
  return url === undefined ? await inFiles(config, log) : await inDatabase(url, config, log, fence);
}

async function inFiles(config: Config, log: Log): Promise<Stores> {
  const { maxBytesPerExec, maxBytesPerSession } = config.journal;
  const inDataDir = (name: string): string => join(config.dataDir, name);
  const stack = new AsyncDisposableStack();
  try {
    const store = await SqliteSessionStore.open({ path: config.dbPath, log });
    stack.defer(() => store.close());
    const eventLog = await SqliteEventLog.open({ path: inDataDir("events.db"), log });
    stack.defer(() => eventLog.close());
    const keyStore = await SqliteKeyStore.open(inDataDir("keys.db"));
    stack.defer(() => keyStore.close());
    const journal = await FileExecJournal.open({
      directory: inDataDir("journal"),
      maxBytesPerExec,
      maxBytesPerSession,
      log,
    });
    return { store, journal, eventLog, keyStore, close: () => stack.disposeAsync() };
  } catch (error) {
    await stack.disposeAsync();
    throw error;
  }
}

/** The Postgres client is slow to load, so it is loaded on demand. */
async function inDatabase(
  url: string,
  config: Config,
  log: Log,
  fence: () => number,
): Promise<Stores> {
  const { PostgresSessionStore } = await import("./store/postgres/postgres-session-store.ts");
  const { PostgresEventLog } = await import("./store/postgres/postgres-event-log.ts");
  const { PostgresKeyStore } = await import("./store/postgres/postgres-key-store.ts");
  const { PostgresExecJournal } = await import("./journal/postgres/postgres-exec-journal.ts");
  const { maxBytesPerExec, maxBytesPerSession } = config.journal;
  const store = await PostgresSessionStore.open({ url, log });
  try {
    const { database, instance } = store;
    return {
      store,
      journal: new PostgresExecJournal({ database, maxBytesPerExec, maxBytesPerSession }),
      eventLog: await PostgresEventLog.open({ database, fence }),
      keyStore: new PostgresKeyStore(database),
      instance,
      close: () => store.closed(),
    };
  } catch (error) {
    await store.closed();
    throw error;
  }
}

/**
 * Identifies the sandboxes of daemons that share a database; undefined if this daemon has its own.
 */
export async function sharedInstance({ databaseUrl: url }: Config): Promise<string | undefined> {
  if (url === undefined) return undefined;
  const { PostgresSessionStore } = await import("./store/postgres/postgres-session-store.ts");
  const store = await PostgresSessionStore.open({ url });
  await store.closed();
  return store.instance;
}
