/** Rows for the store suites: minimal ones, and ones with every property. */
import { randomUUID } from "node:crypto";
import type { ExecRow, SessionRow, WorkspaceRow } from "../ports.ts";

/** The token of the first daemon that joins an empty store, as in the suites. */
export const FENCE = 1;
/** A quota that is never reached. */
export const MANY = 1_000_000;

export function sessionRow(changes: Partial<SessionRow> = {}): SessionRow {
  return {
    id: `ses_${randomUUID()}`,
    owner: "alice",
    status: "running",
    fence: FENCE,
    requestedImage: "python",
    image: "host",
    backend: "oci",
    place: "oci:here",
    profile: "restricted",
    network: "none",
    isolation: "standard",
    limits: {
      memoryBytes: 536_870_912,
      cpuMillicores: 1_000,
      pids: 256,
      diskBytes: 1_073_741_824,
      diskInodes: 65_536,
    },
    metadata: {},
    workspaces: [],
    acquireSource: "cold",
    cwd: "/workspace",
    ttlMs: 1_800_000,
    createdAtMs: 1_790_000_000_000,
    lastActivityAtMs: 1_790_000_000_000,
    leaseEndsMs: 1_900_000.25,
    lifetimeEndsMs: 9_000_000.5,
    ...changes,
  };
}

export function fullSessionRow(changes: Partial<SessionRow> = {}): SessionRow {
  return sessionRow({
    status: "creating",
    key: "workflow:run_1:default",
    imageDigest: `sha256:${"ab".repeat(32)}`,
    sandboxId: "sbx_1a",
    profile: "root",
    network: {
      allow: ["a.example:80,443"],
      secrets: {
        sealed: "c2VhbGVk",
        headers: [{ host: "a.example", header: "authorization", name: "store" }],
      },
    },
    metadata: { team: "blau & grün", "dotted.name-1": "'; DROP TABLE sessions; --", empty: "" },
    workspaceId: "notes",
    workspaces: [
      { id: "data", path: "/mnt/data", readOnly: true },
      { id: "more", path: "/srv/o'more", readOnly: false },
    ],
    cwd: "/workspace/a:b\nc",
    endedAtMs: 1_790_000_000_500,
    endReason: "it was asked to",
    idempotencyKey: "create-1",
    requestHash: "hash-1",
    ...changes,
  });
}

export function execRow(sessionId: string, changes: Partial<ExecRow> = {}): ExecRow {
  return {
    id: `exe_${randomUUID()}`,
    sessionId,
    owner: "alice",
    status: "running",
    mode: "shell",
    command: "echo 'a\u0007ß' | cat",
    startedAtMs: 1_790_000_000_000,
    stdoutBytes: 0,
    stderrBytes: 0,
    droppedBytes: 0,
    shellRestarted: false,
    background: false,
    backgroundBytes: 0,
    timeoutClamped: false,
    ...changes,
  };
}

export function fullExecRow(sessionId: string, changes: Partial<ExecRow> = {}): ExecRow {
  return execRow(sessionId, {
    status: "done",
    mode: "process",
    shell: "build",
    command: ["printf", "%s", "", 'quotes " and \\'],
    endedAtMs: 1_790_000_001_000,
    exitCode: 137,
    signal: 9,
    endReason: "oom",
    cwd: "/tmp",
    durationMs: 1_000.75,
    stdoutBytes: 6_000_000_000,
    stderrBytes: 1,
    droppedBytes: 5_000_000_000,
    shellRestarted: true,
    background: true,
    backgroundBytes: 4_000_000_000,
    timeoutMs: 86_400_000,
    timeoutClamped: true,
    idempotencyKey: "exec-1",
    requestHash: "hash-2",
    request: '{"command":{"kind":"shell","text":"true"}}',
    ...changes,
  });
}

export function workspaceRow(changes: Partial<WorkspaceRow> = {}): WorkspaceRow {
  return {
    id: "notes",
    owner: "alice",
    backend: "oci",
    place: "oci:here",
    diskId: `wsp_${randomUUID()}`,
    createdAtMs: 1_790_000_000_000,
    lastUsedAtMs: 1_790_000_000_000,
    ...changes,
  };
}
