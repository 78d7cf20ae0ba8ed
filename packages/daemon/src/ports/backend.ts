/** The port through which the core creates and destroys sandboxes. */
import type { Channel } from "./channel.ts";

export interface SandboxLimits {
  readonly memoryBytes: number;
  readonly cpuMillicores: number;
  readonly pids: number;
  /** Size of the writable disk: home, and the workspace unless it is a persistent one. */
  readonly diskBytes: number;
  readonly diskInodes: number;
}

/** `restricted`: code is uid 1000 on a read-only root. `root`: code is root inside, on a writable root. */
export type SandboxProfile = "restricted" | "root";

/**
 * `none`: only a private loopback. `gateway`: also name resolution and a proxy that lead to the
 * daemon's gateway (`Channel.openNetwork`). `full`: the engine network that the administrator
 * assigns to sandboxes.
 */
export type SandboxNetwork = "none" | "gateway" | "full";

/** `standard`: on the host's kernel. `strong`: on a separate kernel (gVisor). */
export type SandboxIsolation = "standard" | "strong";

export interface SandboxSpec {
  /** The session's id, or `sbx_` and 2–48 of `a–z 0–9` without one; never reused. */
  readonly id: string;
  /** A reference that the image store knows, already resolved and allowed. */
  readonly image: string;
  /**
   * The content that the reference means to the sandbox's owner, which may differ between owners.
   * When absent, the content that it means to the administrator.
   */
  readonly imageDigest?: string;
  readonly limits: SandboxLimits;
  readonly profile: SandboxProfile;
  readonly env: Readonly<Record<string, string>>;
  /** `none` when absent. */
  readonly network?: SandboxNetwork;
  /** PEM of an authority that the programs trust beside those that the image brings. */
  readonly trustedCertificate?: string;
  /** What the backend usually gives when absent; UNSUPPORTED where it has no kernel to give. */
  readonly isolation?: SandboxIsolation;
  /**
   * The persistent disk to mount at /workspace. It is created if it does not exist, and several
   * sandboxes may mount it at once.
   */
  readonly workspace?: WorkspaceSpec;
  /** Further workspaces, each listed once. */
  readonly workspaces?: readonly MountedWorkspace[];
  /** As for `open`. */
  readonly fence?: number | undefined;
}

/** A persistent disk at a path that is not /workspace. */
export interface MountedWorkspace extends WorkspaceSpec {
  /** Absolute and normalized; nothing of the sandbox itself is at, above or below it. */
  readonly path: string;
  readonly readOnly: boolean;
}

export interface WorkspaceSpec {
  /** `wsp_` and 2–48 of `a–z 0–9`; never reused. */
  readonly id: string;
  /** The size for a new disk; an existing disk keeps its size. */
  readonly diskBytes: number;
  readonly diskInodes: number;
}

export interface WorkspaceListing {
  readonly id: string;
  readonly diskLimitBytes: number;
}

/** A sandbox that exists. Plain data: it outlives the process that created the sandbox. */
export interface SandboxHandle {
  readonly id: string;
  readonly image: string;
  /** The content that image garbage collection must keep while the sandbox exists. */
  readonly imageDigest: string;
  readonly profile: SandboxProfile;
  readonly limits: SandboxLimits;
  /** The persistent disk mounted at /workspace. */
  readonly workspaceId?: string;
  readonly createdAtMs: number;
}

export type SandboxState = "running" | "paused" | "dead";

/** A sandbox that was found running or paused. */
export interface AdoptedSandbox extends SandboxHandle {
  readonly state: "running" | "paused";
}

export interface SandboxListing {
  readonly id: string;
  readonly state: SandboxState;
}

export interface SandboxStats {
  readonly memoryBytes: number;
  readonly memoryLimitBytes: number;
  readonly cpuUsageUsec: number;
  readonly pids: number;
  readonly pidsLimit: number;
  /** The sandbox's private disk; a persistent workspace is not included. */
  readonly diskBytes: number;
  readonly diskLimitBytes: number;
  /** How often the kernel killed a process in the sandbox because memory ran out. */
  readonly oomKills: number;
}

/** One isolation property: what a check found, and whether the property is enforced. */
export interface IsolationFact {
  readonly name: string;
  readonly enforced: boolean;
  readonly measured: string;
}

export interface IsolationReport {
  /**
   * `strong`: separate kernel (gVisor). `standard`: namespaces, limits, user namespace, seccomp and
   * a current runtime. `weak`: at least one of those is missing.
   */
  readonly tier: "strong" | "standard" | "weak";
  readonly runtime: string;
  readonly facts: readonly IsolationFact[];
}

/** How much of the daemon's disk one kind of data takes up. */
export interface StorageUse {
  readonly kind: string;
  readonly files: number;
  readonly bytes: number;
}

/** What the backend can do on this machine, determined by trying it. */
export interface BackendHealth {
  readonly usable: boolean;
  readonly checks: readonly {
    readonly name: string;
    readonly ok: boolean;
    readonly detail: string;
    readonly remedy?: string;
  }[];
}

/** What a backend's sandboxes support. The core checks this, never the backend's name. */
export interface BackendCapabilities {
  /** The isolation levels that sandboxes can have; the first is the default. */
  readonly isolations: readonly [SandboxIsolation, ...SandboxIsolation[]];
  /** Whether sandboxes may have the network `full`. */
  readonly network: boolean;
  readonly pause: boolean;
  /** Whether the limits on disk and inodes are enforced. */
  readonly quota: boolean;
  /** Whether the state of a sandbox can be saved and restored. */
  readonly snapshot: boolean;
}

/**
 * The lifecycle of sandboxes. Every method rejects with a `SandboxError` from the catalogue.
 * `SANDBOX_NOT_FOUND` means that nothing with that id exists.
 */
export interface Backend {
  readonly name: string;
  readonly capabilities: BackendCapabilities;
  /**
   * Creates a sandbox and resolves once its runner responds. A failure at any point leaves nothing
   * behind.
   */
  create(spec: SandboxSpec, signal?: AbortSignal): Promise<SandboxHandle>;
  /**
   * Finds an existing sandbox, even one created by a process that is gone. If the sandbox is dead,
   * `details.out_of_memory` of SANDBOX_UNREACHABLE says whether it is known to have run out of
   * memory.
   */
  adopt(id: string): Promise<AdoptedSandbox>;
  /**
   * Like `adopt`, for a daemon that replaced another one. Afterwards, no daemon with a lower fencing
   * token can pause or resume the sandbox, even with a request that is already on its way.
   */
  takeOver(id: string, fence: number): Promise<AdoptedSandbox>;
  /**
   * Opens a channel into a sandbox. The caller must close it. Once a channel with a fencing token is
   * in use, those with a lower one fail, and so do their calls in progress.
   */
  open(id: string, fence?: number): Promise<Channel>;
  /** With a fencing token, SANDBOX_UNREACHABLE once the sandbox was taken over with a greater one. */
  pause(id: string, fence?: number): Promise<void>;
  /** As for `pause`. */
  resume(id: string, fence?: number): Promise<void>;
  /**
   * Destroys a sandbox and removes everything it left. Idempotent; also cleans up partly created
   * sandboxes.
   */
  destroy(id: string): Promise<void>;
  /** All sandboxes of this backend that left any trace, including dead ones. */
  list(): Promise<SandboxListing[]>;
  stats(id: string): Promise<SandboxStats>;
  /** Checks, from inside and outside, which isolation properties really hold. */
  isolation(id: string): Promise<IsolationReport>;
  health(): Promise<BackendHealth>;
  /**
   * Whether the backend can report on sandboxes now. False while an engine does not respond: every
   * other method then rejects with ENGINE_UNREACHABLE, and the state of the sandboxes is unknown.
   */
  reachable(): Promise<boolean>;
  /** Whether sandboxes can be created now. Existing sandboxes may be healthy even if not. */
  ready(): Promise<boolean>;
  /**
   * Removes what the backend keeps for its sandboxes, unless a sandbox exists. Also happens after
   * each removal.
   */
  tidy(): Promise<void>;
  /** What the backend keeps on the daemon's disk besides sandboxes and workspaces. */
  storage(): Promise<readonly StorageUse[]>;
  /** The persistent workspaces of this backend. */
  listWorkspaces(): Promise<WorkspaceListing[]>;
  /** Removes a workspace and all files in it. Idempotent. CONFLICT while a sandbox uses it. */
  destroyWorkspace(id: string): Promise<void>;
}
