/** Snapshots: copies of sessions, from which new sessions start. */
import type { CallOptions } from "./call-options.ts";
import type { Files } from "./files.ts";
import type { Images } from "./images.ts";
import { SandboxError } from "./sandbox-error.ts";
import type { Session } from "./session.ts";
import type { CreateSessionOptions } from "./session-types.ts";
import { camelOptions, type WithSnakeNames, withSnakeNames } from "./snake-names.ts";
import type { SandboxProfile } from "./wire-names.ts";
import type { Workspaces } from "./workspaces.ts";

interface SnapshotFields {
  readonly id: string;
  /** The session that was copied. */
  readonly sessionId: string;
  /**
   * The image of sessions that start from it: the session's own, or a new one with the session's
   * root.
   */
  readonly image: string;
  readonly backend: string;
  readonly profile: SandboxProfile;
  /** ISO 8601. */
  readonly createdAt: string;
  readonly metadata: Readonly<Record<string, string>>;
}

/** A copy of a session. */
export type SnapshotInfo = WithSnakeNames<SnapshotFields>;

/** The name and metadata of a snapshot. */
export interface CreateSnapshotOptions extends CallOptions {
  /**
   * At most 55 lower-case letters, digits and inner dashes. Random by default. An existing snapshot
   * is replaced.
   */
  readonly id?: string | undefined;
  readonly metadata?: Readonly<Record<string, string>> | undefined;
}

/** The record of a snapshot in its workspace, next to the archives. */
interface SnapshotRecord extends Omit<SnapshotFields, "id"> {
  /** The image was created for this snapshot only. */
  readonly isOwnImage: boolean;
  readonly archives: readonly { readonly path: string; readonly file: string }[];
}

/** What an image does not include. */
const DIRECTORIES = ["/workspace", "/home/sandbox"];
const PREFIX = "snapshot-";
const RECORD = "snapshot.json";

/**
 * The snapshots of the caller. Each is a workspace with archives of `/workspace` and the home
 * directory, and for a session with the profile `root` an image of its root.
 */
export class Snapshots {
  readonly #workspaces: Workspaces;
  readonly #images: Images;
  readonly #createSession: (options: CreateSessionOptions) => Promise<Session>;

  /** @internal */
  constructor(
    workspaces: Workspaces,
    images: Images,
    createSession: (options: CreateSessionOptions) => Promise<Session>,
  ) {
    this.#workspaces = workspaces;
    this.#images = images;
    this.#createSession = createSession;
  }

  /** Copies the files of a session, without processes and variables. The session continues. */
  async create(session: Session, options: CreateSnapshotOptions = {}): Promise<SnapshotInfo> {
    const { id = crypto.randomUUID(), metadata = {}, signal } = options;
    await this.#workspaces.create(PREFIX + id, { signal });
    const store = this.#workspaces.files(PREFIX + id);
    const before = await readRecord(store, signal);
    const record = startRecord(session, metadata);
    try {
      for (const { path, file } of record.archives)
        await store.write(file, await session.files.tar(path, { signal }), { signal });
      if (record.isOwnImage) await session.commit(record.image, { signal });
      // Written last and atomically, so that a reader sees either the old snapshot or the new one.
      await store.write(RECORD, JSON.stringify(record), { signal });
    } catch (error) {
      await this.#remove(record, store);
      if (before === undefined) await this.#workspaces.delete(PREFIX + id);
      throw error;
    }
    if (before !== undefined) await this.#remove(before, store);
    return infoOf(id, record);
  }

  /** All snapshots, oldest first. */
  async list(options: CallOptions = {}): Promise<readonly SnapshotInfo[]> {
    const workspaces = await this.#workspaces.list(options);
    const ids = workspaces
      .filter(({ id }) => id.startsWith(PREFIX))
      .map(({ id }) => id.slice(PREFIX.length));
    const found: SnapshotInfo[] = [];
    for (const id of ids) {
      const record = await this.#find(id, options.signal);
      if (record !== undefined) found.push(infoOf(id, record));
    }
    return found.toSorted((one, other) => (one.createdAt < other.createdAt ? -1 : 1));
  }

  /** One snapshot; undefined if it does not exist. */
  async get(id: string, options: CallOptions = {}): Promise<SnapshotInfo | undefined> {
    const record = await this.#find(id, options.signal);
    return record && infoOf(id, record);
  }

  /**
   * Creates a session with the files of a snapshot. `options` take precedence over the snapshot's
   * own. If an active session has the `key`, it is returned unchanged.
   */
  async restore(id: string, options: CreateSessionOptions = {}): Promise<Session> {
    const asked = camelOptions(options);
    const { signal } = asked;
    const record = await this.#find(id, signal);
    if (record === undefined)
      throw new SandboxError(
        "FILE_NOT_FOUND",
        `Snapshot ${id} not found. List snapshots with client.snapshots.list().`,
      );
    const session = await this.#createSession({
      ...asked,
      backend: asked.backend ?? record.backend,
      image: asked.image ?? record.image,
      profile: asked.profile ?? record.profile,
    });
    if (!session.created) return session;
    try {
      const store = this.#workspaces.files(PREFIX + id);
      for (const { path, file } of record.archives)
        await session.files.untar(path, await store.download(file, { signal }), { signal });
    } catch (error) {
      await session.destroy();
      throw error;
    }
    return session;
  }

  /** Deletes a snapshot. Sessions that started from it continue. Idempotent. */
  async delete(id: string, options: CallOptions = {}): Promise<void> {
    const record = await this.#find(id, options.signal);
    if (record !== undefined) await this.#remove(record, this.#workspaces.files(PREFIX + id));
    await unlessMissing(this.#workspaces.delete(PREFIX + id, options));
  }

  async #find(id: string, signal: AbortSignal | undefined): Promise<SnapshotRecord | undefined> {
    return await readRecord(this.#workspaces.files(PREFIX + id), signal);
  }

  /** Also removes an incomplete snapshot. */
  async #remove({ archives, isOwnImage, image, backend }: SnapshotRecord, store: Files) {
    for (const { file } of archives) await unlessMissing(store.remove(file));
    if (isOwnImage) await unlessMissing(this.#images.remove(image, { backend }), "INVALID_IMAGE");
  }
}

function startRecord(session: Session, metadata: SnapshotFields["metadata"]): SnapshotRecord {
  const { id: sessionId, backend, profile } = session;
  // Otherwise the root is read-only, or the daemon's own machine.
  const isOwnImage = profile === "root" && session.image !== "host";
  const copy = crypto.randomUUID();
  return {
    sessionId,
    image: isOwnImage ? `snapshot/${copy}:1` : session.image,
    isOwnImage,
    backend,
    profile,
    createdAt: new Date().toISOString(),
    metadata,
    archives: DIRECTORIES.map((path, index) => ({ path, file: `${copy}-${index}.tar` })),
  };
}

async function readRecord(
  store: Files,
  signal: AbortSignal | undefined,
): Promise<SnapshotRecord | undefined> {
  const text = await unlessMissing(store.readText(RECORD, { signal }));
  return text === undefined ? undefined : (JSON.parse(text) as SnapshotRecord);
}

function infoOf(id: string, record: SnapshotRecord): SnapshotInfo {
  const { sessionId, image, backend, profile, createdAt, metadata } = record;
  return withSnakeNames({ id, sessionId, image, backend, profile, createdAt, metadata });
}

async function unlessMissing<Value>(
  call: Promise<Value>,
  code = "FILE_NOT_FOUND",
): Promise<Value | undefined> {
  try {
    return await call;
  } catch (error) {
    if (error instanceof SandboxError && error.code === code) return undefined;
    throw error;
  }
}
