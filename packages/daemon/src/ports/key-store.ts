/** The port through which keys are remembered that are made while the daemon runs. */

/** What a key may do: use what its owner has; beside that read all events and manage keys; or only look. */
export type KeyScope = "admin" | "use" | "read";

export interface KeyRow {
  readonly id: string;
  /** What people call it; several keys may have one name. */
  readonly name: string;
  /** Whose sessions, images and workspaces it is for. */
  readonly owner: string;
  readonly scope: KeyScope;
  /** SHA-256 of the whole key, in hex. The key itself is nowhere. */
  readonly digest: string;
  readonly createdAtMs: number;
  readonly expiresAtMs?: number;
  readonly revokedAtMs?: number;
  /** To within some minutes. */
  readonly lastUsedAtMs?: number;
  /** Where they differ from those of every key. */
  readonly maxSessions?: number;
  readonly maxRunningExecs?: number;
  readonly maxImageBytes?: number;
}

export interface RevokedKey {
  readonly row: KeyRow;
  /** It was not revoked before. */
  readonly isNew: boolean;
}

export interface KeyStore {
  /** Whether other daemons change it, too. */
  readonly isShared: boolean;
  insert(row: KeyRow): Promise<void>;
  /** All, also those that were revoked, the oldest first. */
  list(): Promise<readonly KeyRow[]>;
  /** Undefined when there is no such key. What was revoked before stays revoked as of then. */
  revoke(id: string, atMs: number): Promise<RevokedKey | undefined>;
  /** Notes when keys were last used, by id; a time that is earlier than the noted one changes nothing. */
  touch(lastUsedAtMs: ReadonlyMap<string, number>): Promise<void>;
  /** Forgets keys that were revoked before. */
  forgetRevokedBefore(wallMs: number): Promise<void>;
  close(): void | Promise<void>;
}
