/** The port through which the core works inside one sandbox: commands, files, ports. */
import type { DirectoryPage, ExecEndReason, FileEntry, OutputStream } from "@sandkasten/protocol";

/** What to run. A string runs in the shell that remembers, an argv as a fresh process. */
export type ExecCommand =
  | { readonly kind: "shell"; readonly text: string | Uint8Array }
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
  readonly cwd?: string;
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
  /** This command found a new shell because an earlier one ended it. */
  readonly shellRestarted: boolean;
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

export interface FileRead {
  readonly size: number;
  readonly mode: number;
  readonly mtimeMs: number;
  /** The bytes of the asked range; must be consumed or cancelled. Its chunks may be kept. */
  /** A byte stream, which can also be read into memory of the reader's own. */
  readonly body: ReadableStream<Uint8Array>;
}

export interface FileChange {
  readonly kind: "create" | "modify" | "remove" | "move" | "overflow";
  readonly path: string;
}

export type ByteSource = Uint8Array | AsyncIterable<Uint8Array>;

/** A connection to a port inside the sandbox. */
export interface PortConnection {
  readonly readable: ReadableStream<Uint8Array>;
  readonly writable: WritableStream<Uint8Array>;
}

export interface ChannelHealth {
  readonly uptimeMs: number;
  readonly rssBytes: number;
  readonly shell: "bash" | "sh" | "none";
  readonly tracking: "cgroup" | "processes";
  /** What is used of the disk that the workspace is on, be it the sandbox's own or a persistent one; a claim. */
  readonly diskUsedBytes?: number;
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
  resize(execId: string, size: TerminalSize): Promise<void>;
  listExecs(): Promise<ExecInfo[]>;
  /** Frees what the sandbox keeps of a finished command. */
  forgetExec(execId: string): Promise<void>;

  stat(path: string): Promise<FileEntry>;
  readFile(
    path: string,
    range?: { readonly offset?: number; readonly length?: number },
  ): Promise<FileRead>;
  /** Writes atomically: readers see the old content or the new, never a part. */
  writeFile(
    path: string,
    content: ByteSource,
    options?: { readonly mode?: number; readonly overwrite?: boolean; readonly parents?: boolean },
  ): Promise<{ readonly path: string; readonly size: number }>;
  listDirectory(
    path: string,
    options?: { readonly recursive?: boolean; readonly limit?: number; readonly cursor?: string },
  ): Promise<DirectoryPage>;
  makeDirectory(
    path: string,
    options?: { readonly mode?: number; readonly parents?: boolean },
  ): Promise<string>;
  move(from: string, to: string, options?: { readonly overwrite?: boolean }): Promise<string>;
  remove(path: string, options?: { readonly recursive?: boolean }): Promise<string>;
  /** Resolves once the watch is in place; the iterable ends when it is left or the signal fires. */
  watch(
    path: string,
    options?: { readonly recursive?: boolean },
    signal?: AbortSignal,
  ): Promise<AsyncIterable<FileChange>>;
  extractTar(
    path: string,
    archive: ByteSource,
    limits?: { readonly maxBytes?: number; readonly maxEntries?: number },
  ): Promise<{ readonly entries: number; readonly bytes: number }>;
  createTar(path: string): Promise<ReadableStream<Uint8Array>>;
  /** Connects to 127.0.0.1:port inside the sandbox. */
  dial(port: number, signal?: AbortSignal): Promise<PortConnection>;
  ping(): Promise<ChannelHealth>;
  /** Lets go of the connection; the sandbox and its commands go on. */
  close(): void;
}
