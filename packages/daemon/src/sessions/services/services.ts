/** The core's interface to surfaces: every use case, in the core's terms. */
import type { SessionStatus } from "@sandkasten/protocol";
import type { StorageUse } from "../../ports/backend.ts";
import type { EgressCounts } from "../../ports/egress-log.ts";
import type { ImageUsage, Images } from "../../ports/image-store.ts";
import type { Caller } from "./caller.ts";
import type { CommitService } from "./commit-service.ts";
import type { EventService } from "./event-service.ts";
import type { ExecService } from "./exec-service.ts";
import type { FileService } from "./file-service.ts";
import type { NetworkService } from "./network-service.ts";
import type { PortService } from "./port-service.ts";
import type { SessionService } from "./session-service.ts";
import type { ShellService } from "./shell-service.ts";
import type { WorkspaceService } from "./workspace-service.ts";

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
