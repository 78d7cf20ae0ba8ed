/** How much disk a sandbox's own files use, as counted by the sandbox. */
import type { Channel } from "../../ports/channel.ts";
import { HOME_PATH, RUNNER_PATH, VAR_TMP_PATH, WORKSPACE_PATH } from "../container/paths.ts";
import type { SandboxNotes } from "./sandbox-labels.ts";

const TIMEOUT_MS = 10_000;
const MAX_CHARS = 32;

/** A claim of the sandbox. A persistent workspace is not included. */
export async function measureDisk(
  channel: Channel,
  { workspaceId, profile }: SandboxNotes,
  execId: string,
): Promise<number> {
  const directories = [
    HOME_PATH,
    ...(workspaceId === undefined ? [WORKSPACE_PATH] : []),
    // In the root profile it is part of the root, which the engine counts.
    ...(profile === "restricted" ? [VAR_TMP_PATH] : []),
  ];
  const stream = await channel.exec(
    { kind: "process", argv: [RUNNER_PATH, "disk-usage", ...directories] },
    { execId, timeoutMs: TIMEOUT_MS },
    AbortSignal.timeout(TIMEOUT_MS + 5_000),
  );
  let text = "";
  for await (const chunk of stream) {
    if (chunk.stream === "stdout") text += Buffer.from(chunk.bytes).toString();
    if (text.length > MAX_CHARS) break;
  }
  stream.detach();
  await channel.forgetExec(execId);
  const bytes = Number(text);
  return Number.isSafeInteger(bytes) && bytes >= 0 ? bytes : 0;
}
