/** What callers can do with workspaces. */
import type { WorkspaceRow } from "../../ports/session-store.ts";
import type { Caller } from "./caller.ts";

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
