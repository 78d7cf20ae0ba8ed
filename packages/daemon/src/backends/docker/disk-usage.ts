/** How much disk a sandbox's own files take up; it counts them itself. */
import type { Channel } from "../../ports/channel.ts";
import { HOME_PATH, RUNNER_PATH, WORKSPACE_PATH } from "../container/paths.ts";
import type { SandboxNotes } from "./sandbox-labels.ts";

const TIMEOUT_MS = 10_000;
const MAX_CHARS = 32;

/** A claim of the sandbox. A persistent workspace is not its own. */
export async function measureDisk(
  channel: Channel,
  { workspaceId }: SandboxNotes,
  execId: string,
): Promise<number> {
  const directories = workspaceId === undefined ? [WORKSPACE_PATH, HOME_PATH] : [HOME_PATH];
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
