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

/** What to run. A string runs in a stateful shell, an argv as a new process. */
export type ExecCommand =
  | {
      readonly kind: "shell";
      readonly text: string | Uint8Array;
      /** The shell to run it in: created on first use, `default` when absent. */
      readonly shell?: string;
      /** Gives the shell a terminal, which this and all later commands in the shell use. */
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
  /**
   * Chosen by the caller. A second exec with the same id attaches to the first; the command never
   * runs twice.
   */
  readonly execId: string;
  /**
   * For this command only; relative to the workspace. In a shell, use `cd` for a lasting change.
   */
  readonly cwd?: string;
  /** For this command only. In a shell, use `export` for a lasting change. */
  readonly env?: Readonly<Record<string, string>>;
  /** Keep stdin open for `ExecStream.writeStdin`; otherwise it is /dev/null. */
  readonly stdin?: boolean;
  /** Send stderr through the same pipe as stdout, in exact order. */
  readonly merge?: boolean;
  readonly timeoutMs?: number;
  readonly idleTimeoutMs?: number;
}

export interface OutputChunk {
  readonly stream: OutputStream;
  readonly seq: number;
  /** Offset of the first byte in the merged output. */
  readonly offset: number;
  /**
   * Valid only until the next chunk is requested: copy the bytes to keep them, and let pending
   * writes of them finish first.
   */
  readonly bytes: Uint8Array;
}

/** How a command ended. `exitCode` is a claim by untrusted code; never base trust on it. */
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
  /** Bytes that can no longer be read. */
  readonly droppedBytes: number;
  /**
   * The shell was lost: this command ended it, or ran in a new one because an earlier command did.
   */
  readonly shellRestarted: boolean;
  /**
   * Background processes that the command left still hold its output: more may follow, see
   * `attach`.
   */
  readonly outputOpen: boolean;
}

/**
 * A running command. Iterate it to read its output. Requesting the next chunk marks the previous
 * one as consumed, after which the sandbox may discard it. The stream survives lost connections: it
 * re-attaches at the offset that it had reached.
 */
export interface ExecStream extends AsyncIterable<OutputChunk> {
  readonly execId: string;
  /**
   * Settles when the command has ended and, if it is being iterated, all output was delivered.
   * Awaiting it does not read: a command with more output than the window waits until the stream is
   * iterated or detached. Never rejects because the command failed.
   */
  readonly ended: Promise<ExecEnd>;
  /**
   * Resolves when the bytes fit in the sandbox's window and are on their way. Rejects if stdin was
   * not requested or is closed, and with SANDBOX_UNREACHABLE after a connection was lost with input
   * in flight.
   */
  writeStdin(bytes: Uint8Array): Promise<void>;
  closeStdin(): Promise<void>;
  /**
   * Stops reading and drops unread output; the command continues. `ended` then settles as `unknown`
   * unless the end was already known. Leaving the loop does not detach; iterating again continues.
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

/** A stateful shell. Each shell has a separate queue, directory and state. */
export interface ShellInfo {
  readonly name: string;
  readonly kind: "bash" | "sh";
  /** The shell's directory after its last command. */
  readonly cwd: string;
  readonly busy: boolean;
  /** The command that the shell is running. */
  readonly execId?: string;
}

/** A path inside the sandbox; bytes if it may not be UTF-8. */
export type SandboxPath = string | Uint8Array;

export interface FileRead {
  readonly size: number;
  readonly mode: number;
  readonly mtimeMs: number;
  /** Changes whenever the content does. */
  readonly version: string;
  /** Where the file is whose bytes these are, without links; present if it was asked for. */
  readonly realPath?: NamedPath;
  /** A byte stream of the requested range; must be consumed or cancelled. Its chunks may be kept. */
  readonly body: ReadableStream<Uint8Array>;
}

export interface WriteOptions {
  readonly mode?: number;
  /** Create missing parent directories; true when absent. */
  readonly parents?: boolean;
  /** Rejects with FILE_CHANGED unless the file has this version. */
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
  /** Patterns as in a `.gitignore`; matching entries are left out. */
  readonly exclude?: readonly string[];
  /** `fail` when absent. */
  readonly onUnreadable?: "fail" | "skip";
}

export interface TarStream {
  /** How many entries were left out because they are unreadable, with `onUnreadable: "skip"`. */
  readonly unreadable: number;
  /** The first of them. */
  readonly unreadablePaths: readonly NamedPath[];
  /** Errors instead of ending early: an archive that ends is complete. */
  readonly body: ReadableStream<Uint8Array>;
}

export interface FileChange extends NamedPath {
  readonly kind: "create" | "modify" | "remove" | "move" | "overflow";
}

export type ByteSource = Uint8Array | AsyncIterable<Uint8Array>;

/** A listening socket in the sandbox. */
export interface ListeningPort {
  readonly port: number;
  readonly address: string;
  /** A process that has the socket open, if the runner is allowed to see it. */
  readonly pid?: number;
  readonly process?: string;
}

/** A connection to a port inside the sandbox. */
export interface PortConnection {
  readonly readable: ReadableStream<Uint8Array>;
  readonly writable: WritableStream<Uint8Array>;
}

/** The destination that a program in the sandbox wants to connect to, as claimed by the runner. */
export interface SandboxDestination {
  /** A name or an address. */
  readonly host: string;
  readonly port: number;
  readonly via: "transparent" | "connect" | "http" | "socks5";
}

/**
 * A connection that a program in the sandbox requested. Destroying it with an error resets the
 * program's connection; ending both sides closes it.
 */
export interface SandboxConnection extends Duplex {
  /** Reports that the connection is open and bytes can flow. */
  accept(): void;
  /** Refuses the connection, or breaks an open one, and reports why. */
  fail(code: SandboxRefusalCode, message: string): void;
  /** Whether written memory may be reused once the write's callback has run. */
  readonly letsGoOfMemory?: boolean;
}

/** The gateway of one sandbox. */
export interface NetworkHandler {
  /**
   * The ports on which a name can be reached; undefined if the name does not exist for this
   * sandbox.
   */
  resolve(name: string): readonly number[] | undefined;
  connect(destination: SandboxDestination, connection: SandboxConnection): void;
}

export interface OpenNetwork {
  /**
   * `transparent`: names resolve and plain connections work. `proxy`: only programs that use a
   * proxy can connect out.
   */
  readonly mode: "transparent" | "proxy";
  /** Cuts all connections and removes the sandbox's network. */
  close(): void;
}

export interface ChannelHealth {
  readonly uptimeMs: number;
  readonly rssBytes: number;
  readonly shell: "bash" | "sh" | "none";
  readonly tracking: "cgroup" | "processes";
  /**
   * Used space on the disk that holds the workspace (the sandbox's or a persistent one); a claim.
   */
  readonly diskUsedBytes?: number;
  /** Only reported by sandboxes with a separate kernel, which the host cannot inspect; claims. */
  readonly memoryBytes?: number;
  readonly pids?: number;
  readonly oomKills?: number;
}

/**
 * Everything that happens inside a sandbox. All methods reject with a `SandboxError` from the
 * catalogue; `SANDBOX_UNREACHABLE` means that the sandbox did not answer in time or is gone.
 */
export interface Channel {
  /** Starts a command, or attaches to an existing one with this id. */
  exec(command: ExecCommand, options: ExecOptions, signal?: AbortSignal): Promise<ExecStream>;
  /** Attaches to a command by id. `until: "closed"` also follows background processes it left. */
  attach(
    execId: string,
    options?: {
      readonly offset?: number;
      readonly until?: "done" | "closed";
      readonly stdin?: boolean;
    },
    signal?: AbortSignal,
  ): Promise<ExecStream>;
  /**
   * Signals the command's process group, or with `tree` everything it started; returns how many
   * processes got the signal.
   */
  signal(
    execId: string,
    signalNumber: number,
    options?: { readonly tree?: boolean },
  ): Promise<number>;
  /**
   * Ends a command as a timeout does: an interrupt, then a kill of everything it started. Its shell
   * and earlier background jobs continue. Resolves at once, to false if the command had already
   * ended; otherwise the command ends with the reason `cancelled`. A queued command never runs.
   */
  cancel(execId: string): Promise<boolean>;
  /** The existing shells, in order of creation. */
  shells(): Promise<ShellInfo[]>;
  /**
   * Cancels a shell's running and queued commands and ends it; earlier background jobs continue.
   */
  closeShell(name: string): Promise<void>;
  resize(execId: string, size: TerminalSize): Promise<void>;
  listExecs(): Promise<ExecInfo[]>;
  /** Frees what the sandbox keeps about a finished command. */
  forgetExec(execId: string): Promise<void>;

  /** Describes a link itself unless `follow` is set. */
  stat(path: SandboxPath, options?: { readonly follow?: boolean }): Promise<FileEntry>;
  /** The absolute path without links, `.` and `..`; it must exist. */
  realpath(path: SandboxPath): Promise<NamedPath>;
  readFile(
    path: SandboxPath,
    options?: {
      readonly offset?: number;
      readonly length?: number;
      /** Report the real path of the file that was opened. */
      readonly realPath?: boolean;
    },
  ): Promise<FileRead>;
  /** Writes atomically: readers see the old or the new content, never a mix. */
  writeFile(
    path: SandboxPath,
    content: ByteSource,
    options?: WriteOptions & { readonly overwrite?: boolean },
  ): Promise<WrittenFile>;
  /** Appends all of the content to a file, or none of it. Concurrent appends never interleave. */
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
  /** Removes a file or an empty directory; a non-empty directory only with `recursive`. */
  remove(path: SandboxPath, options?: { readonly recursive?: boolean }): Promise<NamedPath>;
  /**
   * Resolves once the watch is in place; the iterable ends when the loop is left or the signal
   * fires.
   */
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
  /** Rejects before any byte is packed if an entry cannot be packed. */
  createTar(path: SandboxPath, options?: TarOptions): Promise<TarStream>;
  /** The listening TCP ports inside the sandbox, ordered by port. */
  listPorts(): Promise<ListeningPort[]>;
  /** Connects to localhost:port inside the sandbox. */
  dial(port: number, signal?: AbortSignal): Promise<PortConnection>;
  /**
   * Opens the sandbox's network, with the handler as its gateway, until it or the channel is
   * closed. The network survives a lost channel, but connections over it are cut. Resolves when
   * programs can use it.
   */
  openNetwork(handler: NetworkHandler): Promise<OpenNetwork>;
  ping(): Promise<ChannelHealth>;
  /** Closes the channel; the sandbox and its commands continue. */
  close(): void;
}
