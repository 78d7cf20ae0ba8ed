/** What the administrator allows, whatever an agent requests. */

export interface SandboxPolicy {
  /** false gives no agent any sandbox tool. */
  readonly enabled: boolean;
  /** false gives agents in code mode no tools. */
  readonly codeModeEnabled: boolean;
  /** Whether agents that request a network get one. */
  readonly allowNetwork: boolean;
  /** Images and patterns with `*`; empty leaves it to the daemon. */
  readonly allowedImages: readonly string[];
  /** The timeout of commands and runs for which neither the call nor the agent sets one. */
  readonly defaultTimeoutSeconds: number;
  /** Longer timeouts are lowered to this. */
  readonly maxTimeoutSeconds: number;
  readonly maxStdoutBytes: number;
  readonly maxStderrBytes: number;
  readonly maxArtifactBytes: number;
  readonly maxArtifactsCount: number;
  /** How long an unused sandbox in code mode lives, unless the agent sets its own timeout. */
  readonly idleTimeoutSeconds: number;
  /** The maximum lifetime of a sandbox. */
  readonly maxLifetimeSeconds: number;
  /** How much of the output of commands is recorded in traces; 0 for none. */
  readonly traceOutputBytes: number;
}

export const DEFAULT_POLICY: SandboxPolicy = {
  enabled: true,
  codeModeEnabled: true,
  allowNetwork: false,
  allowedImages: [],
  defaultTimeoutSeconds: 120,
  maxTimeoutSeconds: 3600,
  maxStdoutBytes: 200_000,
  maxStderrBytes: 200_000,
  maxArtifactBytes: 10_000_000,
  maxArtifactsCount: 50,
  idleTimeoutSeconds: 1800,
  maxLifetimeSeconds: 14_400,
  traceOutputBytes: 2048,
};
