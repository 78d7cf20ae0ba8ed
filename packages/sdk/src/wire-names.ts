/**
 * The names that SDK and daemon share. They are repeated here, so the published types need no other
 * package; wire-names.test.ts does not compile if they differ from the protocol's.
 */

/** Every error code of the daemon. */
export type ErrorCode =
  | "INVALID_REQUEST"
  | "INVALID_IMAGE"
  | "NOT_A_FILE"
  | "NOT_A_DIRECTORY"
  | "UNAUTHORIZED"
  | "PREVIEW_DENIED"
  | "PERMISSION_DENIED"
  | "FORBIDDEN"
  | "KEY_NOT_FOUND"
  | "ROUTE_NOT_FOUND"
  | "SESSION_NOT_FOUND"
  | "SANDBOX_NOT_FOUND"
  | "EXEC_NOT_FOUND"
  | "SHELL_NOT_FOUND"
  | "FILE_NOT_FOUND"
  | "CONFLICT"
  | "FILE_EXISTS"
  | "NO_SHELL"
  | "SESSION_EXPIRED"
  | "FILE_CHANGED"
  | "PAYLOAD_TOO_LARGE"
  | "QUOTA_EXCEEDED"
  | "CANCELLED"
  | "INTERNAL_ERROR"
  | "SANDBOX_IO_ERROR"
  | "UNSUPPORTED"
  | "PORT_REFUSED"
  | "PORT_FAILED"
  | "SANDBOX_UNREACHABLE"
  | "ENGINE_UNREACHABLE"
  | "BACKEND_BUSY"
  | "DATABASE_UNREACHABLE"
  | "REGISTRY_UNREACHABLE"
  | "COMMAND_TIMEOUT"
  | "STORAGE_FULL";

/** What a key may do. */
export type KeyScope = "admin" | "use" | "read";

/** The types of events. */
export type EventType =
  | "session.created"
  | "session.running"
  | "session.paused"
  | "session.resumed"
  | "session.ended"
  | "exec.started"
  | "exec.ended"
  | "file.changed"
  | "image.added"
  | "image.removed"
  | "image.collected"
  | "pool.added"
  | "pool.taken"
  | "pool.failed"
  | "key.created"
  | "key.revoked"
  | "daemon.started"
  | "events.lost";

/** A session is in exactly one of these. */
export type SessionStatus =
  | "creating"
  | "running"
  | "paused"
  | "destroying"
  | "destroyed"
  | "expired"
  | "crashed"
  | "failed";

/** The status of a session. `unreachable` means that its backend does not respond. */
export type ShownStatus = SessionStatus | "unreachable";

/** Whether a command is queued, running, or has ended. */
export type ExecStatus = "queued" | "running" | "done";

/** Why a command ended. */
export type EndReason =
  | "exited"
  | "timeout"
  | "idle_timeout"
  | "oom"
  | "killed"
  | "cancelled"
  | "sandbox_gone"
  | "not_started"
  | "unknown";

/** Where output was written to. */
export type OutputStream = "stdout" | "stderr";

/** The type of a file. */
export type FileType = "file" | "dir" | "symlink" | "other";

/** What happened to a file. After `overflow` some changes are missing: list the directory again. */
export type FileChangeKind = "create" | "modify" | "remove" | "move" | "overflow";

/** `restricted` runs as an ordinary user, `root` as the sandbox's own root. */
export type SandboxProfile = "restricted" | "root";

/** `standard` runs code on the host's kernel, `strong` on a separate one. */
export type SandboxIsolation = "standard" | "strong";

/** Whether a sandbox came from the pool. */
export type AcquireSource = "pool" | "cold";

/** How strong a sandbox's isolation is. */
export type IsolationTier = "strong" | "standard" | "weak";

/** Where an image came from. */
export type ImageSource = "host" | "rootfs" | "oci-archive" | "registry";

/** The phase of getting an image. */
export type ImagePhase = "download" | "unpack";
