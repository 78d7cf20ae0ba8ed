/** What the core is told once, when it is put together. */
import type { SandboxLimits, SandboxProfile } from "../ports/backend.ts";

export interface PoolEntry {
  readonly image: string;
  readonly profile: SandboxProfile;
  readonly size: number;
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
  readonly outputBudgetBytes: number;
  readonly pool: readonly PoolEntry[];
  readonly workspaceDisk: { readonly diskBytes: number; readonly diskInodes: number };
  /** How long ended sessions, with what their commands printed, can be looked up. */
  readonly retentionMs: number;
}
