/** What the core offers to whoever serves it: every use of a session, in the core's own terms. */
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

/** Who asks. Sessions of one caller do not exist for another. */
export interface Caller {
  /** Name of the API key. */
  readonly owner: string;
  /** The images that it imports and pulls are shared with all, and it alone removes those. */
  readonly isAdmin: boolean;
  readonly maxSessions: number;
  readonly maxRunningExecs: number;
  readonly maxWorkspaces: number;
  /** Disk space for the images of this caller; an administrator's are not counted. */
  readonly maxImageBytes: number;
  /** It looks and changes nothing; not even leases are renewed by it. */
  readonly isReadOnly?: boolean;
  /** The key that can be revoked while the daemon runs, if it is one. */
  readonly keyId?: string;
  /** When the key, or the token that stands for one, ends. */
  readonly expiresAtMs?: number;
}

export interface CreateSessionOptions {
  /** Name of the backend; the daemon's usual one when absent. */
  readonly backend?: string;
  readonly image?: string;
  /** 0 for the default. */
  readonly ttlMs?: number;
  readonly workspaceId?: string;
  /** Beside the one at /workspace. */
  readonly workspaces?: readonly WorkspaceMount[];
  readonly key?: string;
  readonly env?: Readonly<Record<string, string>>;
  readonly limits?: Partial<SandboxLimits>;
  readonly network?: NetworkRequest;
  /** For the gateway to add to requests. */
  readonly secrets?: readonly SecretRequest[];
  readonly profile?: SandboxProfile;
  readonly isolation?: SandboxIsolation;
  readonly metadata?: Readonly<Record<string, string>>;
  readonly idempotencyKey?: string;
}

export interface SessionQuery {
  /** An administrator's alone may be another's; absent, an administrator's answer has all owners' sessions. */
  readonly owner?: string;
  readonly status?: SessionStatus;
  readonly key?: string;
  readonly metadata?: Readonly<Record<string, string>>;
  readonly limit?: number;
  readonly cursor?: string;
}

/** A session as it can be seen now, with its lease in wall time. */
export interface SessionView extends Omit<SessionRow, "status"> {
  /** `unreachable` while its backend does not answer, so that nobody knows. */
  readonly status: ShownStatus;
  readonly expiresAtMs: number;
  readonly maxExpiresAtMs: number;
}

/** Access to the inside of a sandbox. Until it is disposed of, the session does not expire for lack of use. */
export interface SandboxAccess extends Disposable {
  readonly channel: Channel;
}

/**
 * Every method rejects with SESSION_NOT_FOUND for an id that the caller has no session of. What
 * needs a living sandbox rejects with SESSION_EXPIRED (lease over), SESSION_NOT_FOUND (destroyed) or
 * CONFLICT (creating, paused, crashed, failed), and renews the lease. While the session's backend
 * does not answer, ENGINE_UNREACHABLE.
 */
export interface SessionService {
  /** Makes a session, or answers the living one of the key, or the one that the same request made before. */
  create(
    caller: Caller,
    options: CreateSessionOptions,
    /** The trace that the session's creation belongs to. */
    trace?: TraceContext,
  ): Promise<{ readonly session: SessionView; readonly created: boolean }>;
  /** Of the caller's own sessions, also those that have ended. */
  get(caller: Caller, id: string): Promise<SessionView>;
  /** As `get`; an administrator sees sessions of other owners, too, though nothing inside of them. */
  look(caller: Caller, id: string): Promise<SessionView>;
  list(caller: Caller, query: SessionQuery): Promise<Page<SessionView>>;
  /** Ends the session; an administrator ends any. Idempotent; waits for one that is being made. */
  destroy(caller: Caller, id: string): Promise<void>;
  pause(caller: Caller, id: string): Promise<SessionView>;
  resume(caller: Caller, id: string): Promise<SessionView>;
  renew(caller: Caller, id: string, ttlMs?: number): Promise<SessionView>;
  stats(caller: Caller, id: string): Promise<SandboxStats>;
  isolation(caller: Caller, id: string): Promise<IsolationReport>;
}

export interface StartExecOptions {
  readonly command: ExecCommand;
  /** The command as its caller asked for it, where `command` is another form of it. */
  readonly asked?: string | readonly string[];
  readonly cwd?: string;
  readonly env?: Readonly<Record<string, string>>;
  /** What interprets it, for traces and metrics; guessed from the command when absent. */
  readonly runtime?: string;
  /** All of the input, or `open` for `writeStdin`. */
  readonly stdin?: Uint8Array | "open";
  readonly merge?: boolean;
  /** 0 or absent for the longest allowed, to which more is clamped; the row says what is in effect. */
  readonly timeoutMs?: number;
  readonly idleTimeoutMs?: number;
  /** How much of the output `wait` shall be able to answer from memory. */
  readonly outputBudgetBytes?: number;
  readonly idempotencyKey?: string;
}

/** What the answer to a finished, or still running, command holds of its output. */
export interface CollectedOutput {
  readonly output: Uint8Array;
  readonly stdout: Uint8Array;
  readonly stderr: Uint8Array;
  readonly truncated: boolean;
  /** Where to go on reading. */
  readonly endOffset: number;
}

/** What to wait for in a command's output. */
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
  /** How long to wait when there is no output yet. */
  readonly waitMs?: number;
  /** Only what was written to this stream. */
  readonly stream?: OutputStream;
  readonly signal?: AbortSignal;
}

export interface FollowOptions {
  readonly offset: number;
  /** `closed` also follows processes that the command left in the background; `done` when absent. */
  readonly until?: "done" | "closed";
  /** Only what was written to this stream. */
  readonly stream?: OutputStream;
  readonly signal?: AbortSignal;
  /** It does not count as use of the session, and the command does not wait for it. */
  readonly isPassive?: boolean;
}

export interface OutputPage {
  readonly page: JournalPage;
  /** As it was before the page was read. */
  readonly exec: ExecRow;
  /** It has ended, and this is the last of its own output; what it left in the background may print more. */
  readonly done: boolean;
  /** Nothing more can come. */
  readonly closed: boolean;
}

export interface ShellView extends ShellInfo {
  /** Commands that wait for it. */
  readonly queued: number;
}

/** A command, looked up once for its caller. It can be used as long as it is held. */
export interface ExecHandle {
  readonly id: string;
  readonly sessionId: string;
  /** As it is now. */
  readonly row: ExecRow;
  /** The directory of the session's shell, for a command that has none itself. */
  shellCwd(): Promise<string>;
  /** Resolves when it has ended or the time is up; look at `status`. */
  wait(timeoutMs?: number, signal?: AbortSignal): Promise<ExecRow>;
  /**
   * Resolves with the first match of a pattern in its output, or its background's; with undefined when
   * no more output can come or the time is up.
   */
  waitFor(
    condition: OutputCondition,
    options: { readonly timeoutMs?: number; readonly signal: AbortSignal },
  ): Promise<PatternMatch | undefined>;
  /** Head and tail of its output within a budget; after the end of the sandbox, too. */
  collect(budgetBytes?: number): Promise<CollectedOutput>;
  /** Output from a cursor on. */
  read(options: ReadOutputOptions): Promise<OutputPage>;
  /**
   * All output from a cursor on as it comes, page by page, until the command has ended and all of it
   * was delivered. While somebody follows, nothing that they have not read is dropped: the command waits.
   */
  follow(options: FollowOptions): AsyncIterable<JournalPage>;
  signal(signal: number, options?: { readonly tree?: boolean }): Promise<number>;
  /**
   * Ends a command as a timeout does; its end has the reason `cancelled`. Resolves at once, to false
   * when it has ended already.
   */
  cancel(): Promise<boolean>;
  writeStdin(bytes: Uint8Array): Promise<void>;
  closeStdin(): Promise<void>;
  resize(size: TerminalSize): Promise<void>;
}

export interface ExecPage extends Page<ExecRow> {
  /** The directory of the session's shell, for commands that have none themselves. */
  readonly shellCwd: string;
}

export interface ExecService {
  /** Starts a command, or finds the one that the same idempotency key started. Resolves when it is written down, before it ends. */
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
  /** Throws INVALID_REQUEST for a pattern that `ExecHandle.waitFor` does not take. */
  checkPattern(pattern: string): void;
}

export interface ShellService {
  /** The session's shells, in the order in which they were created. */
  list(caller: Caller, sessionId: string): Promise<readonly ShellView[]>;
  /** Ends a shell, and cancels the commands that run or wait in it. SHELL_NOT_FOUND when there is none of this name. */
  close(caller: Caller, sessionId: string, name: string): Promise<void>;
}

export interface WorkspaceView extends WorkspaceRow {
  /** Living sessions that have it. */
  readonly sessionIds: readonly string[];
}

/** Persistent directories that outlive sessions. Unknown ones reject with FILE_NOT_FOUND. */
export interface WorkspaceService {
  list(caller: Caller): Promise<readonly WorkspaceView[]>;
  get(caller: Caller, id: string): Promise<WorkspaceView>;
  /** Creates an empty one on the default backend, or returns the one of this id. */
  create(caller: Caller, id: string): Promise<WorkspaceView>;
  /** Removes it with its files. CONFLICT while a session has it. */
  destroy(caller: Caller, id: string): Promise<void>;
}

export interface CommitOptions {
  /** The name of the new image. */
  readonly reference: string;
  /** How large the session's root may be. */
  readonly maxBytes: number;
  /** Keeps the archive of the root in a file while it is used, and removes it afterwards. */
  readonly withArchive: <T>(
    bytes: AsyncIterable<Uint8Array>,
    use: (path: string) => Promise<T>,
  ) => Promise<T>;
}

export interface CommitService {
  /** Makes an image of a session's root, which the caller then has. UNSUPPORTED where the root is read-only or the machine's own. */
  commit(caller: Caller, sessionId: string, options: CommitOptions): Promise<ImageInfo>;
}

/** Where files are: in a session, or in a workspace without one. */
export interface FileLocation {
  readonly kind: "session" | "workspace";
  readonly id: string;
}

/** What can be done with files, as the sandbox does it. */
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

/** Files of one session or workspace. Until they are disposed of, the session does not expire for lack of use. */
export interface OpenFiles extends FileOperations, Disposable {}

/** A change that a caller has made to files. */
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
  /** What was written, made or removed; of an archive the directory. */
  readonly path: NamedPath;
  /** What was moved or copied, as its caller named it. */
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

/** A caller, or whoever holds a link that the daemon signed for this port of this session. */
export type PortVisitor = Caller | "link";

/** A connection to a port. Until it is disposed of, it counts, and the session does not expire for lack of use. */
export interface OpenPort extends Disposable {
  readonly connection: PortConnection;
}

/** A connection out of a sandbox that is open now. */
export interface OpenEgress {
  readonly startedAtMs: number;
  readonly name?: string;
  readonly address?: string;
  readonly port: number;
  readonly via: string;
  readonly sentBytes: number;
  readonly receivedBytes: number;
}

/** Where sessions may connect to, and where they did. */
export interface NetworkService {
  /**
   * Changes the network of a living session; connections that it no longer allows are cut.
   * PERMISSION_DENIED beyond what the administrator allows, CONFLICT for a session that was created
   * without a network, UNSUPPORTED on a network that the daemon does not control.
   */
  change(caller: Caller, sessionId: string, network: NetworkRequest): Promise<SessionView>;
  /** Also of sessions that have ended. */
  egress(
    caller: Caller,
    sessionId: string,
    page: { readonly after: number; readonly limit: number },
  ): Promise<EgressPage & { readonly open: readonly OpenEgress[] }>;
  /** Pages as they come, from a cursor on, until the signal aborts. */
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
  /** What listens inside the sandbox. */
  list(caller: Caller, sessionId: string): Promise<readonly ListeningPort[]>;
  /** PORT_REFUSED when nothing listens, QUOTA_EXCEEDED when the session has too many open. */
  connect(
    visitor: PortVisitor,
    sessionId: string,
    port: number,
    signal?: AbortSignal,
  ): Promise<OpenPort>;
}

/** Numbers about the daemon, for metrics. */
export interface ServiceCounts {
  readonly sessions: Readonly<Record<SessionStatus, number>>;
  readonly runningExecs: number;
  readonly pooled: number;
  /** What output takes of the disk, and how many ended sessions lost theirs to make room. */
  readonly journal: { readonly bytes: number; readonly prunedSessions: number };
  /** By backend, where the daemon keeps the images. */
  readonly images: ReadonlyMap<string, ImageUsage>;
  /** Creates that wait for their turn. */
  readonly waitingCreates: number;
  /** Connections out of sandboxes since the daemon's start. */
  readonly egress: EgressCounts;
}

export interface CreateKeyOptions {
  readonly name: string;
  /** Whose the key is; `name` when absent. */
  readonly owner?: string;
  readonly scope: KeyScope;
  readonly expiresInMs?: number;
  readonly maxSessions?: number;
  readonly maxRunningExecs?: number;
  readonly maxImageBytes?: number;
}

/** A key without what would let somebody use it. */
export interface KeyView extends Omit<KeyRow, "digest" | "createdAtMs"> {
  /** Keys of the configuration are changed there alone. */
  readonly source: "config" | "stored";
  readonly createdAtMs?: number;
}

/** Keys, for administrators; all others get FORBIDDEN. */
export interface KeyService {
  /** The secret is told this once. */
  create(
    caller: Caller,
    options: CreateKeyOptions,
  ): Promise<{ readonly key: KeyView; readonly secret: string }>;
  list(caller: Caller): Promise<readonly KeyView[]>;
  /** Cuts what the key has open. KEY_NOT_FOUND, or CONFLICT for one of the configuration. */
  revoke(caller: Caller, id: string): Promise<void>;
}

export interface WatchEvents {
  /** Only this session's. */
  readonly sessionId?: string;
  /** Only this owner's; anybody but an administrator may name themselves alone. */
  readonly owner?: string;
  readonly types?: ReadonlySet<string>;
  readonly from: FollowEvents["from"];
  /** Ends after what there is now. */
  readonly once?: boolean;
  readonly signal: AbortSignal;
}

export interface EventService {
  /** QUOTA_EXCEEDED when the caller follows too often; SESSION_NOT_FOUND as everywhere. */
  open(caller: Caller, options: WatchEvents): Promise<EventFollower>;
}

export interface Services {
  readonly events: EventService;
  /**
   * The address of the daemon that serves a session, when that is another one; a session that no living
   * daemon serves is claimed first, if this one reaches its sandbox. Undefined when this daemon answers.
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
  /** The images of a backend, by its name, or of the usual one, as the caller sees them. INVALID_REQUEST when there is none of that name. */
  imagesOf(caller: Caller, backend?: string): Images;
  /** Removes the images of a backend that nothing needs any more. PERMISSION_DENIED for all but an administrator. */
  collectImages(
    caller: Caller,
    backend?: string,
  ): Promise<{ readonly removed: number; readonly freedBytes: number }>;
  /** Whether the usual backend answers, and can make sandboxes now. */
  ready(): Promise<"ready" | "unreachable" | "busy">;
  counts(): ServiceCounts;
  /** What takes up the daemon's disk, beside sandboxes and workspaces. */
  storage(): Promise<readonly StorageUse[]>;
}
