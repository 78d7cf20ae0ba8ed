/** The core's interface to surfaces: every use of a session, in the core's terms. */
import type { EventFollower, FollowEvents } from "../events/feed.ts";
import type { NamedPath, OutputStream, SessionStatus, ShownStatus } from "@sandkasten/protocol";
import type { SecretRequest } from "../network/edge-secrets.ts";
import type { NetworkRequest } from "../network/plan-network.ts";
import type { EgressCounts, EgressPage } from "../ports/egress-log.ts";
import type {
  IsolationReport,
  SandboxLimits,
  SandboxProfile,
  SandboxStats,
  StorageUse,
  SandboxIsolation,
} from "../ports/backend.ts";
import type {
  Channel,
  ExecCommand,
  ListeningPort,
  PortConnection,
  ShellInfo,
  TerminalSize,
} from "../ports/channel.ts";
import type { JournalPage } from "../ports/exec-journal.ts";
import type { ImageInfo, Images, ImageUsage } from "../ports/image-store.ts";
import type { KeyRow, KeyScope } from "../ports/key-store.ts";
import type {
  ExecRow,
  Page,
  SessionRow,
  WorkspaceMount,
  WorkspaceRow,
} from "../ports/session-store.ts";
import type { TraceContext } from "../ports/telemetry.ts";

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

export interface CreateSessionOptions {
  /** Name of the backend; the daemon's default when absent. */
  readonly backend?: string;
  readonly image?: string;
  /** 0 for the default. */
  readonly ttlMs?: number;
  readonly workspaceId?: string;
  /** In addition to the one at /workspace. */
  readonly workspaces?: readonly WorkspaceMount[];
  readonly key?: string;
  readonly env?: Readonly<Record<string, string>>;
  readonly limits?: Partial<SandboxLimits>;
  readonly network?: NetworkRequest;
  /** Secrets that the gateway adds to requests. */
  readonly secrets?: readonly SecretRequest[];
  readonly profile?: SandboxProfile;
  readonly isolation?: SandboxIsolation;
  readonly metadata?: Readonly<Record<string, string>>;
  readonly idempotencyKey?: string;
}

export interface SessionQuery {
  /** Only an administrator may name another owner; when absent, an administrator gets all owners' sessions. */
  readonly owner?: string;
  readonly status?: SessionStatus;
  readonly key?: string;
  readonly metadata?: Readonly<Record<string, string>>;
  readonly limit?: number;
  readonly cursor?: string;
}

/** The current state of a session, with its lease in wall time. */
export interface SessionView extends Omit<SessionRow, "status"> {
  /** `unreachable` while its backend does not respond and the state is unknown. */
  readonly status: ShownStatus;
  readonly expiresAtMs: number;
  readonly maxExpiresAtMs: number;
}

/** Access to the inside of a sandbox. Until it is disposed, the session does not expire. */
export interface SandboxAccess extends Disposable {
  readonly channel: Channel;
}

/**
 * Every method rejects with SESSION_NOT_FOUND for an id that is not one of the caller's sessions.
 * Methods that need a running sandbox renew the lease, and reject with SESSION_EXPIRED (lease
 * over), SESSION_NOT_FOUND (destroyed) or CONFLICT (creating, paused, crashed, failed). While the
 * session's backend does not respond, they reject with ENGINE_UNREACHABLE.
 */
export interface SessionService {
  /**
   * Creates a session, or returns the active session for the key, or the one that the same request
   * created before.
   */
  create(
    caller: Caller,
    options: CreateSessionOptions,
    /** The trace of the request that creates the session. */
    trace?: TraceContext,
  ): Promise<{ readonly session: SessionView; readonly created: boolean }>;
  /** One of the caller's own sessions, including ended ones. */
  get(caller: Caller, id: string): Promise<SessionView>;
  /** Like `get`, but an administrator also sees sessions of other owners, though nothing inside them. */
  look(caller: Caller, id: string): Promise<SessionView>;
  list(caller: Caller, query: SessionQuery): Promise<Page<SessionView>>;
  /** Ends the session; an administrator can end any. Idempotent; waits for one that is being created. */
  destroy(caller: Caller, id: string): Promise<void>;
  pause(caller: Caller, id: string): Promise<SessionView>;
  resume(caller: Caller, id: string): Promise<SessionView>;
  renew(caller: Caller, id: string, ttlMs?: number): Promise<SessionView>;
  stats(caller: Caller, id: string): Promise<SandboxStats>;
  isolation(caller: Caller, id: string): Promise<IsolationReport>;
}

export interface StartExecOptions {
  readonly command: ExecCommand;
  /** The command as requested, if `command` is another form of it. */
  readonly asked?: string | readonly string[];
  readonly cwd?: string;
  readonly env?: Readonly<Record<string, string>>;
  /** The interpreter, for traces and metrics; guessed from the command when absent. */
  readonly runtime?: string;
  /** The whole input, or `open` for `writeStdin`. */
  readonly stdin?: Uint8Array | "open";
  readonly merge?: boolean;
  /**
   * 0 or absent for the longest allowed; longer values are clamped to it. The row has the effective
   * timeout.
   */
  readonly timeoutMs?: number;
  readonly idleTimeoutMs?: number;
  /** How much of the output `wait` can return from memory. */
  readonly outputBudgetBytes?: number;
  readonly idempotencyKey?: string;
}

/** The output in the response for a finished or running command. */
export interface CollectedOutput {
  readonly output: Uint8Array;
  readonly stdout: Uint8Array;
  readonly stderr: Uint8Array;
  readonly truncated: boolean;
  /** Where to continue reading. */
  readonly endOffset: number;
}

/** The output to wait for. */
export interface OutputCondition {
  /** A regular expression in the syntax of RE2. */
  readonly pattern: string;
  readonly stream?: OutputStream;
}

export interface PatternMatch {
  readonly stream: OutputStream;
  readonly text: string;
  readonly groups: readonly (string | null)[];
  readonly line: string;
}

export interface ReadOutputOptions {
  readonly offset: number;
  readonly maxBytes: number;
  /** How long to wait if there is no output yet. */
  readonly waitMs?: number;
  /** Only output of this stream. */
  readonly stream?: OutputStream;
  readonly signal?: AbortSignal;
}

export interface FollowOptions {
  readonly offset: number;
  /** `closed` also follows background processes of the command; `done` when absent. */
  readonly until?: "done" | "closed";
  /** Only output of this stream. */
  readonly stream?: OutputStream;
  readonly signal?: AbortSignal;
  /** It does not count as use of the session, and the command does not wait for it. */
  readonly isPassive?: boolean;
  /** The bytes of a page are then valid only until the next page is requested. */
  readonly reusesMemory?: boolean;
}

export interface OutputPage {
  readonly page: JournalPage;
  /** The command before the page was read. */
  readonly exec: ExecRow;
  /** The command has ended, and this is the last of its output; background processes may print more. */
  readonly done: boolean;
  /** No more output can come. */
  readonly closed: boolean;
}

export interface ShellView extends ShellInfo {
  /** Commands waiting for the shell. */
  readonly queued: number;
}

/** A command, looked up once for its caller. */
export interface ExecHandle {
  readonly id: string;
  readonly sessionId: string;
  /** As it is now. */
  readonly row: ExecRow;
  /** The directory of the session's shell, for a command that has none. */
  shellCwd(): Promise<string>;
  /** Resolves when the command has ended or the timeout expires; check `status`. */
  wait(timeoutMs?: number, signal?: AbortSignal): Promise<ExecRow>;
  /**
   * Resolves with the first match of a pattern in the output of the command or its background, or
   * with undefined if no more output can come or the timeout expires.
   */
  waitFor(
    condition: OutputCondition,
    options: { readonly timeoutMs?: number; readonly signal: AbortSignal },
  ): Promise<PatternMatch | undefined>;
  /** Head and tail of its output within a budget; also after the sandbox has ended. */
  collect(budgetBytes?: number): Promise<CollectedOutput>;
  /** Output from a cursor on. */
  read(options: ReadOutputOptions): Promise<OutputPage>;
  /**
   * All output from a cursor on, page by page, until the command has ended and everything was
   * delivered. Output that a follower has not read is not dropped: the command waits.
   */
  follow(options: FollowOptions): AsyncIterable<JournalPage>;
  signal(signal: number, options?: { readonly tree?: boolean }): Promise<number>;
  /**
   * Ends a command as a timeout does, with the reason `cancelled`. Resolves at once, to false if it
   * has already ended.
   */
  cancel(): Promise<boolean>;
  writeStdin(bytes: Uint8Array): Promise<void>;
  closeStdin(): Promise<void>;
  resize(size: TerminalSize): Promise<void>;
}

export interface ExecPage extends Page<ExecRow> {
  /** The directory of the session's shell, for commands that have none. */
  readonly shellCwd: string;
}

export interface ExecService {
  /**
   * Starts a command, or finds the one that the same idempotency key started. Resolves when it is
   * recorded, before it ends.
   */
  start(
    caller: Caller,
    sessionId: string,
    options: StartExecOptions,
    /** The trace that the command belongs to. Not part of the request: a retry has another. */
    trace?: TraceContext,
  ): Promise<ExecHandle>;
  get(caller: Caller, sessionId: string, execId: string): Promise<ExecHandle>;
  list(
    caller: Caller,
    sessionId: string,
    page: { readonly limit?: number; readonly cursor?: string },
  ): Promise<ExecPage>;
  /** Throws INVALID_REQUEST for a pattern that `ExecHandle.waitFor` does not accept. */
  checkPattern(pattern: string): void;
}

export interface ShellService {
  /** The session's shells, in order of creation. */
  list(caller: Caller, sessionId: string): Promise<readonly ShellView[]>;
  /**
   * Ends a shell, and cancels its running and queued commands. Rejects with SHELL_NOT_FOUND if
   * there is none with this name.
   */
  close(caller: Caller, sessionId: string, name: string): Promise<void>;
}

export interface WorkspaceView extends WorkspaceRow {
  /** Active sessions that use it. */
  readonly sessionIds: readonly string[];
}

/** Persistent directories that outlive sessions. Unknown ones reject with FILE_NOT_FOUND. */
export interface WorkspaceService {
  list(caller: Caller): Promise<readonly WorkspaceView[]>;
  get(caller: Caller, id: string): Promise<WorkspaceView>;
  /** Creates an empty one on the default backend, or returns the existing one with this id. */
  create(caller: Caller, id: string): Promise<WorkspaceView>;
  /** Removes it with its files. CONFLICT while a session uses it. */
  destroy(caller: Caller, id: string): Promise<void>;
}

export interface CommitOptions {
  /** The name of the new image. */
  readonly reference: string;
  /** The maximum size of the session's root. */
  readonly maxBytes: number;
  /** Stores the archive of the root in a file while it is used, and removes it afterwards. */
  readonly withArchive: <T>(
    bytes: AsyncIterable<Uint8Array>,
    use: (path: string) => Promise<T>,
  ) => Promise<T>;
}

export interface CommitService {
  /**
   * Creates an image of the caller from a session's root. UNSUPPORTED if the root is read-only or
   * the machine's own.
   */
  commit(caller: Caller, sessionId: string, options: CommitOptions): Promise<ImageInfo>;
}

/** Where files are: in a session, or in a workspace without one. */
export interface FileLocation {
  readonly kind: "session" | "workspace";
  readonly id: string;
}

/** File operations as the sandbox performs them. */
export type FileOperations = Pick<
  Channel,
  | "stat"
  | "realpath"
  | "readFile"
  | "writeFile"
  | "appendFile"
  | "listDirectory"
  | "makeDirectory"
  | "move"
  | "copy"
  | "remove"
  | "watch"
  | "extractTar"
  | "createTar"
>;

/** Files of one session or workspace. Until they are disposed, the session does not expire. */
export interface OpenFiles extends FileOperations, Disposable {}

/** A file change by a caller. */
export interface FileWrite {
  readonly owner: string;
  readonly location: FileLocation;
  readonly operation:
    | "write"
    | "append"
    | "make_directory"
    | "move"
    | "copy"
    | "remove"
    | "extract";
  /** The path that was written, created or removed; for an archive, the directory. */
  readonly path: NamedPath;
  /** The path that was moved or copied, as its caller named it. */
  readonly from?: NamedPath;
}

export interface FileService {
  /** With `create`, a workspace that does not exist is created; without, it rejects with FILE_NOT_FOUND. */
  open(
    caller: Caller,
    location: FileLocation,
    options?: { readonly create?: boolean },
  ): Promise<OpenFiles>;
}

/** A caller, or a visitor with a link that the daemon signed for this port of this session. */
export type PortVisitor = Caller | "link";

/** A connection to a port. Until it is disposed, it counts, and the session does not expire. */
export interface OpenPort extends Disposable {
  readonly connection: PortConnection;
}

/** A currently open outbound connection of a sandbox. */
export interface OpenEgress {
  readonly startedAtMs: number;
  readonly name?: string;
  readonly address?: string;
  readonly port: number;
  readonly via: string;
  readonly sentBytes: number;
  readonly receivedBytes: number;
}

/** Where sessions may connect to, and where they have connected. */
export interface NetworkService {
  /**
   * Changes the network of a running session; connections that it no longer allows are cut.
   * PERMISSION_DENIED beyond what the administrator allows, CONFLICT for a session that was created
   * without a network, UNSUPPORTED on a network that the daemon does not control.
   */
  change(caller: Caller, sessionId: string, network: NetworkRequest): Promise<SessionView>;
  /** Also for ended sessions. */
  egress(
    caller: Caller,
    sessionId: string,
    page: { readonly after: number; readonly limit: number },
  ): Promise<EgressPage & { readonly open: readonly OpenEgress[] }>;
  /** Yields pages from a cursor on, as they arrive, until the signal aborts. */
  follow(
    caller: Caller,
    sessionId: string,
    after: number,
    signal: AbortSignal,
  ): AsyncIterable<EgressPage>;
}

export interface PortService {
  /** Rejects unless the session can be reached now. */
  checkReachable(caller: Caller, sessionId: string): Promise<void>;
  /** The listening ports inside the sandbox. */
  list(caller: Caller, sessionId: string): Promise<readonly ListeningPort[]>;
  /** PORT_REFUSED if nothing listens, QUOTA_EXCEEDED if the session has too many open connections. */
  connect(
    visitor: PortVisitor,
    sessionId: string,
    port: number,
    signal?: AbortSignal,
  ): Promise<OpenPort>;
}

/** Counts for the daemon's metrics. */
export interface ServiceCounts {
  readonly sessions: Readonly<Record<SessionStatus, number>>;
  readonly runningExecs: number;
  readonly pooled: number;
  /** Disk space of output, and how many ended sessions lost theirs to make room. */
  readonly journal: { readonly bytes: number; readonly prunedSessions: number };
  /** By backend, if the daemon keeps the images. */
  readonly images: ReadonlyMap<string, ImageUsage>;
  /** Creations waiting for their turn. */
  readonly waitingCreates: number;
  /** Outbound connections of sandboxes since the daemon started. */
  readonly egress: EgressCounts;
}

export interface CreateKeyOptions {
  readonly name: string;
  /** The owner of the key; `name` when absent. */
  readonly owner?: string;
  readonly scope: KeyScope;
  readonly expiresInMs?: number;
  readonly maxSessions?: number;
  readonly maxRunningExecs?: number;
  readonly maxImageBytes?: number;
}

/** A key without its secret. */
export interface KeyView extends Omit<KeyRow, "digest" | "createdAtMs"> {
  /** Configured keys can only be changed in the configuration. */
  readonly source: "config" | "stored";
  readonly createdAtMs?: number;
}

/** Keys, for administrators; all others get FORBIDDEN. */
export interface KeyService {
  /** The secret is returned only this once. */
  create(
    caller: Caller,
    options: CreateKeyOptions,
  ): Promise<{ readonly key: KeyView; readonly secret: string }>;
  list(caller: Caller): Promise<readonly KeyView[]>;
  /** Also closes the key's open streams. Rejects with KEY_NOT_FOUND, or CONFLICT for a configured key. */
  revoke(caller: Caller, id: string): Promise<void>;
}

export interface WatchEvents {
  /** Only this session's. */
  readonly sessionId?: string;
  /** Only this owner's; callers other than an administrator may only name themselves. */
  readonly owner?: string;
  readonly types?: ReadonlySet<string>;
  readonly from: FollowEvents["from"];
  /** Ends after the current events. */
  readonly once?: boolean;
  readonly signal: AbortSignal;
}

export interface EventService {
  /** QUOTA_EXCEEDED if the caller has too many streams; SESSION_NOT_FOUND as everywhere. */
  open(caller: Caller, options: WatchEvents): Promise<EventFollower>;
}

export interface Services {
  readonly events: EventService;
  /**
   * The address of the other daemon that serves a session; a session that no live daemon serves is
   * claimed first, if this one reaches its sandbox. Undefined if this daemon serves it.
   */
  servedAt(sessionId: string): Promise<string | undefined> | undefined;
  readonly sessions: SessionService;
  readonly execs: ExecService;
  readonly shells: ShellService;
  readonly files: FileService;
  readonly workspaces: WorkspaceService;
  readonly commits: CommitService;
  readonly ports: PortService;
  readonly networks: NetworkService;
  /**
   * The images of a backend, by name, or of the default one, as the caller sees them.
   * INVALID_REQUEST if there is no such backend.
   */
  imagesOf(caller: Caller, backend?: string): Images;
  /** Removes unused images of a backend. PERMISSION_DENIED for all but an administrator. */
  collectImages(
    caller: Caller,
    backend?: string,
  ): Promise<{ readonly removed: number; readonly freedBytes: number }>;
  /** Whether the default backend responds, and can create sandboxes now. */
  ready(): Promise<"ready" | "unreachable" | "busy">;
  counts(): ServiceCounts;
  /** What uses the daemon's disk, besides sandboxes and workspaces. */
  storage(): Promise<readonly StorageUse[]>;
}
