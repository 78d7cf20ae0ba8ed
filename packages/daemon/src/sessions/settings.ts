/** What the core is told once, when it is put together. */
import type { DeadlineTimes } from "./exec-deadline.ts";
import type { SandboxLimits, SandboxProfile } from "../ports/backend.ts";

export interface PoolEntry {
  readonly image: string;
  readonly profile: SandboxProfile;
  readonly size: number;
  /** Whether its sandboxes are for sessions whose network the gateway enforces. */
  readonly network?: boolean;
  /** Nobody configured it: nothing is fetched for it, and it waits for its image without a warning. */
  readonly isImplied?: boolean;
}

export interface SessionSettings {
  readonly defaultProfile: SandboxProfile;
  readonly allowRootProfile: boolean;
  readonly defaultTtlMs: number;
  readonly maxLifetimeMs: number;
  readonly defaultLimits: SandboxLimits;
  /** What a request may ask for at most. */
  readonly maxLimits: SandboxLimits;
  readonly maxExecTimeoutMs: number;
  /** The daemon's own deadlines behind a command's timeout; the usual ones when absent. */
  readonly deadlineTimes?: DeadlineTimes;
  readonly outputBudgetBytes: number;
  /** How many sandboxes are created at the same time; the others wait for their turn. */
  readonly concurrentCreates: number;
  readonly pool: readonly PoolEntry[];
  /** Connections to ports that one session may have open. */
  readonly maxPortConnections: number;
  readonly workspaceDisk: { readonly diskBytes: number; readonly diskInodes: number };
  /** What output may take of the disk; beyond it that of ended sessions goes, the oldest first. */
  readonly journal: { readonly maxBytesPerOwner: number; readonly maxBytes: number };
  /** How long ended sessions, with what their commands printed, can be looked up. */
  readonly retentionMs: number;
}
