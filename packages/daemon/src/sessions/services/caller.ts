/** The caller of a use case. */

/** The caller of a request. Sessions of one caller do not exist for another. */
export interface Caller {
  /** Name of the API key. */
  readonly owner: string;
  /** Its imported and pulled images are shared with all, and only it can remove them. */
  readonly isAdmin: boolean;
  readonly maxSessions: number;
  readonly maxRunningExecs: number;
  readonly maxWorkspaces: number;
  /** Disk space for the caller's images; an administrator's are not counted. */
  readonly maxImageBytes: number;
  /** It only reads, and does not even renew leases. */
  readonly isReadOnly?: boolean;
  /** The id of a key that can be revoked at runtime, if it is one. */
  readonly keyId?: string;
  /** When the key or token expires. */
  readonly expiresAtMs?: number;
}
