/** Client of a Sandkasten daemon for Node, Bun, Deno and browsers, without dependencies. */
export { SandboxClient, type DaemonVersion } from "./client.ts";
export type { ClientOptions } from "./client-options.ts";
export { SandboxError, type SandboxErrorCode, type SandboxErrorOptions } from "./sandbox-error.ts";
export type { CallOptions } from "./call-options.ts";
export type {
  Exec,
  FollowExecOptions,
  ReadOutputOptions,
  SignalOptions,
  WaitOptions,
} from "./exec.ts";
export type { ExecStream } from "./exec-stream.ts";
export type {
  Command,
  ExecInfo,
  ExecOptions,
  ExecResult,
  OutputChunk,
  OutputPage,
  StartOptions,
  TerminalSize,
} from "./exec-types.ts";
export type { ByteRange, ByteStream, FileChange, FileEntry, FileSource } from "./file-types.ts";
export type {
  DownloadOptions,
  ExtractedArchive,
  Files,
  MakeDirectoryOptions,
  MoveOptions,
  ReadFileOptions,
  RecursiveOptions,
  WriteFileOptions,
  WrittenFile,
} from "./files.ts";
export type { CollectedImages, ImageInfo, ImageProgress } from "./image-types.ts";
export type { Images, ImportImageOptions, ProgressOptions } from "./images.ts";
export type { Pty, PtyOptions } from "./pty.ts";
export type { RenewOptions, Session } from "./session.ts";
export type {
  CreateSessionOptions,
  IsolationFact,
  IsolationReport,
  Limits,
  ListSessionsOptions,
  SessionFilter,
  SessionInfo,
  SessionPage,
  SessionStats,
  WorkspaceInfo,
} from "./session-types.ts";
export type { WebSocketConstructor, WebSocketLike } from "./web-socket.ts";
export type {
  AcquireSource,
  EndReason,
  ErrorCode,
  ExecStatus,
  FileChangeKind,
  FileType,
  ImagePhase,
  ImageSource,
  IsolationTier,
  OutputStream,
  SandboxProfile,
  SessionStatus,
  ShownStatus,
} from "./wire-names.ts";
export type { Workspaces } from "./workspaces.ts";
