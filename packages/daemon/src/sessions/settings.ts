/** The core's settings, fixed when it is assembled. */
import type { DeadlineTimes } from "./exec-deadline.ts";
import type { SandboxLimits, SandboxProfile } from "../ports/backend.ts";

export interface PoolEntry {
  readonly image: string;
  readonly profile: SandboxProfile;
  readonly size: number;
  /** Whether its sandboxes are for sessions whose network the gateway enforces. */
  readonly network?: boolean;
  /** Not configured explicitly: nothing is downloaded for it, and it waits for its image without a warning. */
  readonly isImplied?: boolean;
}

export interface SessionSettings {
  readonly defaultProfile: SandboxProfile;
  readonly allowRootProfile: boolean;
  readonly defaultTtlMs: number;
  readonly maxLifetimeMs: number;
  readonly defaultLimits: SandboxLimits;
  /** The most that a request may set. */
  readonly maxLimits: SandboxLimits;
  readonly maxExecTimeoutMs: number;
  /** The daemon's own deadlines after a command's timeout; the defaults when absent. */
  readonly deadlineTimes?: DeadlineTimes;
  readonly outputBudgetBytes: number;
  /** How many sandboxes are created at the same time; others wait for their turn. */
  readonly concurrentCreates: number;
  readonly pool: readonly PoolEntry[];
  /** Open connections to ports per session. */
  readonly maxPortConnections: number;
  readonly workspaceDisk: { readonly diskBytes: number; readonly diskInodes: number };
  /** Disk limits for output; beyond them the output of ended sessions is deleted, oldest first. */
  readonly journal: { readonly maxBytesPerOwner: number; readonly maxBytes: number };
  /** How long ended sessions and their commands' output can be looked up. */
  readonly retentionMs: number;
}
