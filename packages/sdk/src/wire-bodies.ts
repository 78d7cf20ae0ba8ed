/** Responses of the daemon for which the protocol has a schema but no named type. */
import type {
  cancelledBodySchema,
  collectedSchema,
  copiedFilesSchema,
  execPageSchema,
  extractedSchema,
  fileListSchema,
  imageListSchema,
  pathBodySchema,
  shellListBodySchema,
  signalledBodySchema,
  uploadedSchema,
  versionSchema,
  workspaceListSchema,
  writtenFileSchema,
} from "@sandkasten/protocol";

export type CancelledBody = (typeof cancelledBodySchema)["_output"];
export type CollectedBody = (typeof collectedSchema)["_output"];
export type CopiedFilesBody = (typeof copiedFilesSchema)["_output"];
export type ExecPageBody = (typeof execPageSchema)["_output"];
export type ExtractedBody = (typeof extractedSchema)["_output"];
export type FileListBody = (typeof fileListSchema)["_output"];
export type ImageListBody = (typeof imageListSchema)["_output"];
export type PathBody = (typeof pathBodySchema)["_output"];
export type ShellListBody = (typeof shellListBodySchema)["_output"];
export type SignalledBody = (typeof signalledBodySchema)["_output"];
export type UploadedBody = (typeof uploadedSchema)["_output"];
export type VersionBody = (typeof versionSchema)["_output"];
export type WorkspaceListBody = (typeof workspaceListSchema)["_output"];
export type WrittenFileBody = (typeof writtenFileSchema)["_output"];
