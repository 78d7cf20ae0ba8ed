/** Sample responses of a daemon. */
import type {
  ExecInfoBody,
  ExecResultBody,
  OutputChunkBody,
  SessionBody,
} from "@sandkasten/protocol";
import { SandboxClient } from "../client.ts";
import type { ClientOptions } from "../client-options.ts";
import { Session } from "../session.ts";
import { toSessionInfo } from "../session-types.ts";
import { toTransportOptions } from "../client-options.ts";
import { Transport } from "../transport.ts";
import type { ScriptedServer } from "./scripted-server.ts";

export const sessionBody: SessionBody = {
  id: "ses_1",
  session_id: "ses_1",
  sandbox_id: "ses_1",
  image: "host",
  status: "running",
  backend: "oci",
  cwd: "/workspace",
  acquire_source: "cold",
  workspace_id: "notes",
  workspaces: [{ id: "data", path: "/mnt/data", read_only: true }],
  profile: "restricted",
  network: "none",
  isolation_level: "standard",
  limits: { memory_mb: 512, cpu_millicores: 1000, pids: 256, disk_mb: 512, disk_inodes: 65_536 },
  metadata: { my_tag: "a_b" },
  ttl_seconds: 1800,
  created_at: "2026-01-31T12:00:00.000Z",
  expires_at: "2026-01-31T12:30:00.000Z",
  max_expires_at: "2026-01-31T16:00:00.000Z",
  last_activity_at: "2026-01-31T12:00:00.000Z",
};

export const execInfoBody: ExecInfoBody = {
  exec_id: "exe_1",
  session_id: "ses_1",
  status: "done",
  cmd: "echo hi",
  exit_code: 0,
  end_reason: "exited",
  timed_out: false,
  cwd: "/workspace",
  duration_ms: 12,
  output_bytes: 3,
  stdout_bytes: 3,
  stderr_bytes: 0,
  dropped_bytes: 0,
  shell_restarted: false,
  background: false,
  background_bytes: 0,
  timeout_ms: 86_400_000,
  timeout_clamped: false,
  started_at: "2026-01-31T12:00:00.000Z",
  ended_at: "2026-01-31T12:00:00.012Z",
};

export const execResultBody: ExecResultBody = {
  ...execInfoBody,
  next_cursor: 3,
  output: "hi\n",
  stdout: "hi\n",
  stderr: "",
  truncated: false,
};

/** A chunk of output that begins at an offset. */
export function chunkBody(offset: number, content: string | Uint8Array): OutputChunkBody {
  const bytes = Buffer.from(content);
  return {
    seq: offset,
    stream: "stdout",
    chunk: bytes.toString(),
    chunk_base64: bytes.toString("base64"),
    timestamp: 1_769_860_800_000,
    offset,
  };
}

const quick = { apiKey: "sk_test", retryDelayMs: 1 };

/** A client of a scripted server, with short delays. */
export function clientOf(server: ScriptedServer, options: ClientOptions = {}): SandboxClient {
  return new SandboxClient({ ...quick, baseUrl: server.url, ...options });
}

/** A session of a scripted server, without a request. */
export function sessionOf(server: ScriptedServer, options: ClientOptions = {}): Session {
  return new Session(transportOf(server, options), toSessionInfo(sessionBody));
}

export function transportOf(server: ScriptedServer, options: ClientOptions = {}): Transport {
  return new Transport(toTransportOptions({ ...quick, baseUrl: server.url, ...options }));
}
