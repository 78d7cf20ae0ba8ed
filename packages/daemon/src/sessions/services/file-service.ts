/** What callers can do with files. */
import type { NamedPath } from "@sandkasten/protocol";
import type { Channel } from "../../ports/channel.ts";
import type { Caller } from "./caller.ts";

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
