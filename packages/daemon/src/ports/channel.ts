/** The port through which the core works inside one sandbox: commands, files, ports, its network. */
import type { Duplex } from "node:stream";
import type {
  DirectoryPage,
  ExecEndReason,
  FileEntry,
  NamedPath,
  OutputStream,
  SandboxRefusalCode,
} from "@sandkasten/protocol";

/** What to run. A string runs in the shell that remembers, an argv as a fresh process. */
export type ExecCommand =
  | {
      readonly kind: "shell";
      readonly text: string | Uint8Array;
      /** Which shell runs it: created on first use, `default` when absent. */
      readonly shell?: string;
      /** Gives the shell a terminal, on which this command and all later ones in it run. */
      readonly pty?: TerminalSize;
    }
  | {
      readonly kind: "process";
      readonly argv: readonly string[];
      readonly user?: string;
      readonly pty?: TerminalSize;
    };

export interface TerminalSize {
  readonly rows: number;
  readonly cols: number;
}

export interface ExecOptions {
  /** Chosen by the caller; a second exec with the same id attaches to the first, it never runs twice. */
  readonly execId: string;
  /** For this command only; relative to the workspace. In a shell, `cd` is what lasts. */
  readonly cwd?: string;
  /** For this command only. In a shell, `export` is what lasts. */
  readonly env?: Readonly<Record<string, string>>;
  /** Keep stdin open for `ExecStream.writeStdin`; otherwise it is /dev/null. */
  readonly stdin?: boolean;
  /** Send stderr down the same pipe as stdout, in exact order. */
  readonly merge?: boolean;
  readonly timeoutMs?: number;
  readonly idleTimeoutMs?: number;
}

export interface OutputChunk {
  readonly stream: OutputStream;
  readonly seq: number;
  /** Offset of the first byte in the merged output. */
  readonly offset: number;
  /** Only valid until the next chunk is asked for: copy what you keep, and let writes of them end first. */
  readonly bytes: Uint8Array;
}

/** How a command ended. `exitCode` is a claim of code we do not trust, never a reason to trust it. */
export interface ExecEnd {
  readonly execId: string;
  readonly reason: ExecEndReason;
  /** Absent when the end is not known (`unknown`, `sandbox_gone`). */
  readonly exitCode?: number;
  readonly signal?: number;
  /** The shell's directory afterwards; absent for processes. */
  readonly cwd?: string;
  readonly durationMs: number;
  readonly stdoutBytes: number;
  readonly stderrBytes: number;
  /** Bytes that no reader can get any more. */
  readonly droppedBytes: number;
  /** The shell was lost: this command ended it, or found a new one because an earlier command did. */
  readonly shellRestarted: boolean;
  /** Processes that it left in the background hold its output: more can come, see `attach`. */
  readonly outputOpen: boolean;
}

/**
 * A running command. Iterate it for its output; a chunk counts as consumed, and may be
 * forgotten by the sandbox, when the next one is asked for. The stream outlives lost
 * connections: it re-attaches at the offset it had reached.
 */
export interface ExecStream extends AsyncIterable<OutputChunk> {
  readonly execId: string;
  /**
   * Settles when the command has ended and, if it is being iterated, all output was delivered.
   * Awaiting it does not read: a command with more output than the window waits until somebody
   * iterates or calls `detach()`. Never rejects for a command's own failure.
   */
  readonly ended: Promise<ExecEnd>;
  /**
   * Resolves when the bytes are on their way within the sandbox's window. Rejects when stdin was not
   * asked for or is closed. After a connection lost with input on its way it rejects with
   * SANDBOX_UNREACHABLE.
   */
  writeStdin(bytes: Uint8Array): Promise<void>;
  closeStdin(): Promise<void>;
  /**
   * Stops reading and drops what was not read; the command goes on. `ended` then settles as
   * `unknown` unless the end was known. Leaving the loop does not detach; iterating again goes on.
   */
  detach(): void;
}

export interface ExecInfo {
  readonly execId: string;
  readonly mode: "shell" | "process";
  readonly state: "queued" | "running" | "done";
  readonly pid?: number;
  readonly ageMs: number;
  readonly stdoutBytes: number;
  readonly stderrBytes: number;
  readonly end?: ExecEnd;
}

/** One of the shells that remember. Each has its own queue, directory and state. */
export interface ShellInfo {
  readonly name: string;
  readonly kind: "bash" | "sh";
  /** Its directory after the last command. */
  readonly cwd: string;
  readonly busy: boolean;
  /** The command that runs in it. */
  readonly execId?: string;
}

/** A path inside the sandbox; as bytes where it may not be UTF-8. */
export type SandboxPath = string | Uint8Array;

export interface FileRead {
  readonly size: number;
  readonly mode: number;
  readonly mtimeMs: number;
  /** Changes whenever the content does. */
  readonly version: string;
  /** The bytes of the asked range; must be consumed or cancelled. Its chunks may be kept. */
  /** A byte stream, which can also be read into memory of the reader's own. */
  readonly body: ReadableStream<Uint8Array>;
}

export interface WriteOptions {
  readonly mode?: number;
  /** Make missing directories above it; true when absent. */
  readonly parents?: boolean;
  /** Fails with FILE_CHANGED unless the file is at this version. */
  readonly ifVersion?: string;
}

export interface WrittenFile extends NamedPath {
  /** Of the whole file. */
  readonly size: number;
  readonly version: string;
}

export interface CopiedFiles extends NamedPath {
  readonly entries: number;
  readonly bytes: number;
  /** Pipes, sockets and devices, which are not copied. */
  readonly skipped: number;
}

export interface TarOptions {
  /** Patterns as in a `.gitignore`; what matches is left out. */
  readonly exclude?: readonly string[];
  /** `fail` when absent. */
  readonly onUnreadable?: "fail" | "skip";
}

export interface TarStream {
  /** How many entries were left out because they cannot be read, with `onUnreadable: "skip"`. */
  readonly unreadable: number;
  /** The first of them. */
  readonly unreadablePaths: readonly NamedPath[];
  /** Fails rather than end early: an archive that ends is complete. */
  readonly body: ReadableStream<Uint8Array>;
}

export interface FileChange extends NamedPath {
  readonly kind: "create" | "modify" | "remove" | "move" | "overflow";
}

export type ByteSource = Uint8Array | AsyncIterable<Uint8Array>;

/** A socket in the sandbox that waits for connections. */
export interface ListeningPort {
  readonly port: number;
  readonly address: string;
  /** Of a process that has it open, where the runner may look. */
  readonly pid?: number;
  readonly process?: string;
}

/** A connection to a port inside the sandbox. */
export interface PortConnection {
  readonly readable: ReadableStream<Uint8Array>;
  readonly writable: WritableStream<Uint8Array>;
}

/** Where a program in the sandbox wants to connect to, as the runner claims it. */
export interface SandboxDestination {
  /** A name or an address. */
  readonly host: string;
  readonly port: number;
  readonly via: "transparent" | "connect" | "http" | "socks5";
}

/**
 * A connection that a program in the sandbox asked for. Destroying it with an error resets it for the
 * program; ending both sides closes it.
 */
export interface SandboxConnection extends Duplex {
  /** It is open: bytes can move. */
  accept(): void;
  /** Refuses it, or breaks one that is open, and tells why. */
  fail(code: SandboxRefusalCode, message: string): void;
  /** What was written may be changed once the callback of the write has said that it is done. */
  readonly letsGoOfMemory?: boolean;
}

/** The gateway of one sandbox. */
export interface NetworkHandler {
  /** The ports on which a name can be reached; undefined for a name that does not exist for this sandbox. */
  resolve(name: string): readonly number[] | undefined;
  connect(destination: SandboxDestination, connection: SandboxConnection): void;
}

export interface OpenNetwork {
  /** `transparent`: names resolve and plain connections work. `proxy`: only programs that use a proxy get out. */
  readonly mode: "transparent" | "proxy";
  /** Cuts all connections; the sandbox has no network any more. */
  close(): void;
}

export interface ChannelHealth {
  readonly uptimeMs: number;
  readonly rssBytes: number;
  readonly shell: "bash" | "sh" | "none";
  readonly tracking: "cgroup" | "processes";
  /** What is used of the disk that the workspace is on, be it the sandbox's own or a persistent one; a claim. */
  readonly diskUsedBytes?: number;
  /** Only from a sandbox with a kernel of its own, which the host cannot see into; claims. */
  readonly memoryBytes?: number;
  readonly pids?: number;
  readonly oomKills?: number;
}

/**
 * Everything that happens inside a sandbox. All methods reject with a `SandboxError` from the
 * catalogue; `SANDBOX_UNREACHABLE` means that the sandbox did not answer in time or is gone.
 */
export interface Channel {
  /** Starts a command, or attaches to the one that has this id already. */
  exec(command: ExecCommand, options: ExecOptions, signal?: AbortSignal): Promise<ExecStream>;
  /** Attaches to a command by id. `until: "closed"` follows processes it left in the background. */
  attach(
    execId: string,
    options?: {
      readonly offset?: number;
      readonly until?: "done" | "closed";
      readonly stdin?: boolean;
    },
    signal?: AbortSignal,
  ): Promise<ExecStream>;
  /** Sends a signal to the command's process group, or with `tree` to all it started; tells how many got it. */
  signal(
    execId: string,
    signalNumber: number,
    options?: { readonly tree?: boolean },
  ): Promise<number>;
  /**
   * Ends a command as a timeout does: an interrupt, then a kill of everything it started. Its shell
   * and earlier background jobs live on. Resolves at once, to false when the command had ended; the
   * command's own end has the reason `cancelled`. One that waits in a queue never runs.
   */
  cancel(execId: string): Promise<boolean>;
  /** The shells that exist, in the order in which they were created. */
  shells(): Promise<ShellInfo[]>;
  /** Cancels what runs and waits in a shell and ends it; earlier background jobs live on. */
  closeShell(name: string): Promise<void>;
  resize(execId: string, size: TerminalSize): Promise<void>;
  listExecs(): Promise<ExecInfo[]>;
  /** Frees what the sandbox keeps of a finished command. */
  forgetExec(execId: string): Promise<void>;

  /** Describes a link itself unless it is to be followed. */
  stat(path: SandboxPath, options?: { readonly follow?: boolean }): Promise<FileEntry>;
  /** The absolute path without links, `.` and `..`; it must exist. */
  realpath(path: SandboxPath): Promise<NamedPath>;
  readFile(
    path: SandboxPath,
    range?: { readonly offset?: number; readonly length?: number },
  ): Promise<FileRead>;
  /** Writes atomically: readers see the old content or the new, never a part. */
  writeFile(
    path: SandboxPath,
    content: ByteSource,
    options?: WriteOptions & { readonly overwrite?: boolean },
  ): Promise<WrittenFile>;
  /** Adds all of the content to the end of a file, or nothing of it. Two appends never mix. */
  appendFile(path: SandboxPath, content: ByteSource, options?: WriteOptions): Promise<WrittenFile>;
  listDirectory(
    path: SandboxPath,
    options?: { readonly recursive?: boolean; readonly limit?: number; readonly cursor?: string },
  ): Promise<DirectoryPage>;
  makeDirectory(
    path: SandboxPath,
    options?: { readonly mode?: number; readonly parents?: boolean },
  ): Promise<NamedPath>;
  move(
    from: SandboxPath,
    to: SandboxPath,
    options?: { readonly overwrite?: boolean },
  ): Promise<NamedPath>;
  /** Copies a file, a link itself, or with `recursive` a tree. Links in it are never followed. */
  copy(
    from: SandboxPath,
    to: SandboxPath,
    options?: { readonly overwrite?: boolean; readonly recursive?: boolean },
  ): Promise<CopiedFiles>;
  /** Removes a file or an empty directory; a directory with something in it only with `recursive`. */
  remove(path: SandboxPath, options?: { readonly recursive?: boolean }): Promise<NamedPath>;
  /** Resolves once the watch is in place; the iterable ends when it is left or the signal fires. */
  watch(
    path: SandboxPath,
    options?: { readonly recursive?: boolean },
    signal?: AbortSignal,
  ): Promise<AsyncIterable<FileChange>>;
  extractTar(
    path: SandboxPath,
    archive: ByteSource,
    limits?: { readonly maxBytes?: number; readonly maxEntries?: number },
  ): Promise<{ readonly entries: number; readonly bytes: number }>;
  /** What cannot be packed is found before this resolves. */
  createTar(path: SandboxPath, options?: TarOptions): Promise<TarStream>;
  /** What listens on TCP ports inside the sandbox, by port. */
  listPorts(): Promise<ListeningPort[]>;
  /** Connects to localhost:port inside the sandbox. */
  dial(port: number, signal?: AbortSignal): Promise<PortConnection>;
  /**
   * Opens the sandbox's network, with the handler as its gateway, until it or the channel is closed.
   * It survives lost connections; what they carried is cut. Resolves when programs can use it.
   */
  openNetwork(handler: NetworkHandler): Promise<OpenNetwork>;
  ping(): Promise<ChannelHealth>;
  /** Lets go of the connection; the sandbox and its commands go on. */
  close(): void;
}
