/** Client of a Sandkasten daemon for Node, Bun, Deno and browsers, without dependencies. */
export { SandboxClient, type DaemonVersion } from "./client.ts";
export type { ClientOptions } from "./client-options.ts";
export { SandboxError, type SandboxErrorCode, type SandboxErrorOptions } from "./sandbox-error.ts";
export type { CallOptions } from "./call-options.ts";
export type { EventOptions, SandboxEvent, SessionEventOptions } from "./events.ts";
export type { CreatedKey, CreateKeyOptions, KeyInfo, Keys } from "./keys.ts";
export type {
  Exec,
  FollowExecOptions,
  ReadOutputOptions,
  SignalOptions,
  WaitOptions,
} from "./exec.ts";
export type { ExecChunk } from "./exec-chunks.ts";
export type { ExecStream } from "./exec-stream.ts";
export type {
  Command,
  ExecInfo,
  ExecOptions,
  ExecResult,
  OutputChunk,
  OutputCondition,
  OutputMatch,
  OutputPage,
  StartOptions,
  CommandRuntime,
  TerminalSize,
  Variables,
} from "./exec-types.ts";
export type { ByteRange, ByteStream, FileChange, FileEntry, FileSource } from "./file-types.ts";
export type {
  AppendFileOptions,
  CopiedFiles,
  CopyOptions,
  DownloadOptions,
  ExtractedArchive,
  MakeDirectoryOptions,
  MoveOptions,
  ReadFileOptions,
  RecursiveOptions,
  StatOptions,
  TarOptions,
  WriteFileOptions,
  WrittenFile,
} from "./file-options.ts";
export type { Files } from "./files.ts";
export type { CollectedImages, ImageInfo, ImageProgress } from "./image-types.ts";
export type { Images, ImportImageOptions, ProgressOptions } from "./images.ts";
export type { PortConnection, PortInfo } from "./port-connection.ts";
export type { Pty, PtyOptions } from "./pty.ts";
export type { NamedPath, SandboxPath } from "./sandbox-path.ts";
export type {
  EgressOptions,
  EgressPage,
  EgressRecord,
  NetworkRequest,
  NetworkRules,
  OpenEgress,
  Secret,
  SecretHeader,
} from "./network-types.ts";
export type { RenewOptions, Session, UrlOptions } from "./session.ts";
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
  WorkspaceMount,
} from "./session-types.ts";
export type { Shell, ShellInfo } from "./shell.ts";
export type { CreateSnapshotOptions, SnapshotInfo, Snapshots } from "./snapshots.ts";
export type { WebSocketConstructor, WebSocketLike } from "./web-socket.ts";
export type {
  AcquireSource,
  EndReason,
  EventType,
  ErrorCode,
  ExecStatus,
  FileChangeKind,
  FileType,
  ImagePhase,
  ImageSource,
  IsolationTier,
  KeyScope,
  OutputStream,
  SandboxIsolation,
  SandboxProfile,
  SessionStatus,
  ShownStatus,
} from "./wire-names.ts";
export type { Workspaces } from "./workspaces.ts";
