/** Ends a command whose caller gave the waiting up, and wants it cancelled. */
import type { ExecInfoBody } from "@sandkasten/protocol";
import { Exec } from "./exec.ts";
import type { ExecOptions } from "./exec-types.ts";
import { camelOptions } from "./snake-names.ts";
import { type Call, path, type Transport } from "./transport.ts";

/** Whether the caller has given up, and wants the command to end with that. */
export function cancelsOnAbort(options: ExecOptions): boolean {
  const { onAbort, signal } = camelOptions(options);
  return onAbort === "cancel" && signal?.aborted === true;
}

/** The call's answer would have named the command; the same request under the same key names it again. */
export async function cancelStarted(
  transport: Transport,
  sessionId: string,
  call: Call,
): Promise<void> {
  const { json, idempotencyKey } = call;
  const started = await transport.json<ExecInfoBody>({
    method: "POST",
    path: path`/v1/sessions/${sessionId}/execs`,
    json,
    ...(idempotencyKey !== undefined && { idempotencyKey }),
  });
  await new Exec(transport, sessionId, started.exec_id).cancel();
}
