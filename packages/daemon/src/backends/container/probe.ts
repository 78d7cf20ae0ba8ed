/** What a sandbox reports when the runner tries what must not work. */
import { SandboxError } from "@sandkasten/protocol";
import { z } from "zod";
import type { IsolationFact, SandboxProfile } from "../../ports/backend.ts";
import type { Channel } from "../../ports/channel.ts";
import { RUNNER_PATH } from "./paths.ts";

const probeSchema = z.object({
  uid: z.string(),
  uid_map: z.string(),
  pid_one: z.string(),
  cap_eff: z.string(),
  no_new_privs: z.string(),
  seccomp: z.string(),
  kernel: z.string(),
  interfaces: z.array(z.string()),
  root_read_only: z.boolean(),
  sys_visible: z.boolean(),
  unshare_user: z.string(),
  mount: z.string(),
  workspace_bytes: z.number(),
  kill_init: z.string(),
  oom_score: z.number(),
  /** The lowest score that code reached. */
  oom_score_lowest: z.number(),
  /** For code's cgroup, if a mounted file system shows it. */
  pids_max: z.string().optional(),
});

export type Probe = z.infer<typeof probeSchema>;

const MAX_PROBE_BYTES = 64 * 1024;
const PROBE_TIMEOUT_MS = 10_000;

/** Runs as the code user, in a separate process. */
export async function probeInside(channel: Channel, execId: string): Promise<Probe> {
  const stream = await channel.exec(
    { kind: "process", argv: [RUNNER_PATH, "probe"] },
    { execId, timeoutMs: PROBE_TIMEOUT_MS },
    // The sandbox's own timeout is only a claim, like everything else.
    AbortSignal.timeout(PROBE_TIMEOUT_MS + 5_000),
  );
  let text = "";
  const decoder = new TextDecoder();
  for await (const chunk of stream) {
    if (chunk.stream === "stdout") text += decoder.decode(chunk.bytes, { stream: true });
    if (text.length > MAX_PROBE_BYTES) break;
  }
  stream.detach();
  try {
    return probeSchema.parse(JSON.parse(text));
  } catch (cause) {
    throw new SandboxError("SANDBOX_UNREACHABLE", "the sandbox did not report its isolation", {
      cause,
    });
  }
}

/**
 * Facts that only the inside can determine. With `ownKernel`, namespaces and the files of /sys
 * belong to that kernel: they expose nothing of the host.
 */
export function insideFacts(
  profile: SandboxProfile,
  inside: Probe,
  ownKernel = false,
): IsolationFact[] {
  const refused = (answer: string): boolean => answer !== "ok";
  return [
    {
      name: "code_capabilities",
      // Root's capabilities are harmless in its user namespace; other users have none.
      enforced: profile === "root" || /^0+$/u.test(inside.cap_eff),
      measured: `effective ${inside.cap_eff}`,
    },
    {
      name: "no_network",
      enforced: inside.interfaces.every((name) => name === "lo"),
      measured: `interfaces: ${inside.interfaces.join(" ")}`,
    },
    {
      name: "read_only_root",
      enforced: inside.root_read_only,
      measured: inside.root_read_only ? "read-only" : "writable",
    },
    {
      name: "no_sysfs",
      enforced: ownKernel || !inside.sys_visible,
      measured: ownKernel
        ? "/sys belongs to the sandbox's separate kernel"
        : inside.sys_visible
          ? "/sys is visible"
          : "/sys is empty",
    },
    {
      name: "no_nested_namespaces",
      enforced: ownKernel || refused(inside.unshare_user),
      measured: ownKernel
        ? "namespaces are created in the sandbox's separate kernel, never in the host's"
        : `unshare(NEWUSER): ${inside.unshare_user}`,
    },
    { name: "no_mounts", enforced: refused(inside.mount), measured: `mount(): ${inside.mount}` },
    {
      name: "init_protected",
      enforced: refused(inside.kill_init),
      measured: `kill(1, 0): ${inside.kill_init}`,
    },
  ];
}
