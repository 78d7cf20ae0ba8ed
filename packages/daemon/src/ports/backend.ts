/** The port through which the core brings sandboxes into being and ends them. */
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
 * `none`: a loopback of its own. `gateway`: nothing more, but names and a proxy inside that lead to
 * the gateway of the daemon (`Channel.openNetwork`). `full`: the network of the engine that the
 * administrator gives sandboxes.
 */
export type SandboxNetwork = "none" | "gateway" | "full";

/** `standard`: on the host's kernel. `strong`: on a kernel of the sandbox's own. */
export type SandboxIsolation = "standard" | "strong";

export interface SandboxSpec {
  /** `sbx_` and 2–48 of `a–z 0–9`; unique for ever. */
  readonly id: string;
  /** A reference that the image store knows, already resolved and allowed. */
  readonly image: string;
  /**
   * What the reference stands for to the owner of the sandbox, to whom it may mean other content
   * than to others. Without it, what it means to the administrator.
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
  /** A persistent disk to have at /workspace. It is made when there is none, and may be in several sandboxes at once. */
  readonly workspace?: WorkspaceSpec;
  /** Further ones, each once. */
  readonly workspaces?: readonly MountedWorkspace[];
}

/** A persistent disk at a path that is not /workspace. */
export interface MountedWorkspace extends WorkspaceSpec {
  /** Absolute and normal; nothing of the sandbox's own is there, above or below. */
  readonly path: string;
  readonly readOnly: boolean;
}

export interface WorkspaceSpec {
  /** `wsp_` and 2–48 of `a–z 0–9`; unique for ever. */
  readonly id: string;
  /** How large to make it when there is none; one that exists keeps its size. */
  readonly diskBytes: number;
  readonly diskInodes: number;
}

export interface WorkspaceListing {
  readonly id: string;
  readonly diskLimitBytes: number;
}

/** A sandbox that exists. Plain data: it survives the process that made it. */
export interface SandboxHandle {
  readonly id: string;
  readonly image: string;
  /** What garbage collection of images must leave alone while the sandbox lives. */
  readonly imageDigest: string;
  readonly profile: SandboxProfile;
  readonly limits: SandboxLimits;
  /** The persistent disk that it has at /workspace. */
  readonly workspaceId?: string;
  readonly createdAtMs: number;
}

export type SandboxState = "running" | "paused" | "dead";

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
  /** Of the sandbox's own disk; a persistent workspace is another. */
  readonly diskBytes: number;
  readonly diskLimitBytes: number;
  /** How often the kernel has killed a process here for want of memory. */
  readonly oomKills: number;
}

/** One property of isolation: what was found, by looking, and whether that is enforcement. */
export interface IsolationFact {
  readonly name: string;
  readonly enforced: boolean;
  readonly measured: string;
}

export interface IsolationReport {
  /** `strong`: own kernel (gVisor). `standard`: namespaces, limits, user namespace, seccomp and a current runtime. `weak`: something of that is missing. */
  readonly tier: "strong" | "standard" | "weak";
  readonly runtime: string;
  readonly facts: readonly IsolationFact[];
}

/** How much of the daemon's disk one kind of thing takes up. */
export interface StorageUse {
  readonly kind: string;
  readonly files: number;
  readonly bytes: number;
}

/** What the backend can do on this machine, found by trying. */
export interface BackendHealth {
  readonly usable: boolean;
  readonly checks: readonly {
    readonly name: string;
    readonly ok: boolean;
    readonly detail: string;
    readonly remedy?: string;
  }[];
}

/** What the sandboxes of a backend can have; the core asks this, never the backend's name. */
export interface BackendCapabilities {
  /** Which isolation sandboxes can have; the first is what they get unless they ask. */
  readonly isolations: readonly [SandboxIsolation, ...SandboxIsolation[]];
  /** Whether sandboxes may have the network `full`. */
  readonly network: boolean;
  readonly pause: boolean;
  /** Whether the limits on disk and inodes are enforced. */
  readonly quota: boolean;
  /** Whether the state of a sandbox can be kept and restored. */
  readonly snapshot: boolean;
}

/**
 * The life of sandboxes. Every method rejects with a `SandboxError` of the catalogue.
 * `SANDBOX_NOT_FOUND` means that nothing of that id exists.
 */
export interface Backend {
  readonly name: string;
  readonly capabilities: BackendCapabilities;
  /** Makes a sandbox and answers when its runner does. A failure, at whatever point, leaves nothing behind. */
  create(spec: SandboxSpec, signal?: AbortSignal): Promise<SandboxHandle>;
  /**
   * Finds a living sandbox again, also one made by another process that is gone. For a dead one,
   * `details.out_of_memory` of SANDBOX_UNREACHABLE says whether it is known to have died of that.
   */
  adopt(id: string): Promise<SandboxHandle>;
  /** Opens a way into a sandbox, which is the caller's to close. */
  open(id: string): Promise<Channel>;
  pause(id: string): Promise<void>;
  resume(id: string): Promise<void>;
  /** Ends a sandbox and removes all that it was. Idempotent; also sweeps up after half-made ones. */
  destroy(id: string): Promise<void>;
  /** All sandboxes of this backend that left any trace, the dead ones included. */
  list(): Promise<SandboxListing[]>;
  stats(id: string): Promise<SandboxStats>;
  /** Looks, from inside and outside, at what really holds. */
  isolation(id: string): Promise<IsolationReport>;
  health(): Promise<BackendHealth>;
  /**
   * Whether sandboxes can be asked after now. False while an engine does not answer: then every other
   * method rejects with ENGINE_UNREACHABLE, and nothing is known of what became of the sandboxes.
   */
  reachable(): Promise<boolean>;
  /** Whether sandboxes can be made now. Living ones may be well when they cannot. */
  ready(): Promise<boolean>;
  /** Removes what the backend keeps for its sandboxes, unless there is one. Done after each removal, too. */
  tidy(): Promise<void>;
  /** What the backend keeps on the daemon's disk beside sandboxes and workspaces. */
  storage(): Promise<readonly StorageUse[]>;
  /** The persistent workspaces of this backend. */
  listWorkspaces(): Promise<WorkspaceListing[]>;
  /** Removes a workspace and all files in it. Idempotent. CONFLICT while a sandbox has it. */
  destroyWorkspace(id: string): Promise<void>;
}
