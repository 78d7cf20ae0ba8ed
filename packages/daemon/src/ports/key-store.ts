/** The port that stores keys created while the daemon runs. */

/**
 * What a key may do: `use` its owner's resources; `admin` also reads all events and manages keys;
 * `read` only reads.
 */
export type KeyScope = "admin" | "use" | "read";

export interface KeyRow {
  readonly id: string;
  /** A display name; several keys may have the same one. */
  readonly name: string;
  /** The owner of the sessions, images and workspaces that it gives access to. */
  readonly owner: string;
  readonly scope: KeyScope;
  /** SHA-256 of the whole key, in hex. The key itself is not stored. */
  readonly digest: string;
  readonly createdAtMs: number;
  readonly expiresAtMs?: number;
  readonly revokedAtMs?: number;
  /** Accurate to a few minutes. */
  readonly lastUsedAtMs?: number;
  /** Limits that differ from the general ones. */
  readonly maxSessions?: number;
  readonly maxRunningExecs?: number;
  readonly maxImageBytes?: number;
}

export interface RevokedKey {
  readonly row: KeyRow;
  /** False if the key had already been revoked. */
  readonly isNew: boolean;
}

export interface KeyStore {
  /** Whether other daemons also change it. */
  readonly isShared: boolean;
  insert(row: KeyRow): Promise<void>;
  /** All keys, including revoked ones, oldest first. */
  list(): Promise<readonly KeyRow[]>;
  /** Undefined if there is no such key. Revoking again keeps the first time. */
  revoke(id: string, atMs: number): Promise<RevokedKey | undefined>;
  /**
   * Records when keys were last used, by id; a time earlier than the recorded one changes nothing.
   */
  touch(lastUsedAtMs: ReadonlyMap<string, number>): Promise<void>;
  /** Removes keys that were revoked before this time. */
  forgetRevokedBefore(wallMs: number): Promise<void>;
  close(): void | Promise<void>;
}
