/** Cancels a command whose caller aborted the call and wants that. */
import type { ExecInfoBody } from "@sandkasten/protocol";
import { Exec } from "./exec.ts";
import type { ExecOptions } from "./exec-types.ts";
import { camelOptions } from "./snake-names.ts";
import { type Call, path, type Transport } from "./transport.ts";

/** Whether the caller has aborted, and wants the command to end. */
export function cancelsOnAbort(options: ExecOptions): boolean {
  const { onAbort, signal } = camelOptions(options);
  return onAbort === "cancel" && signal?.aborted === true;
}

/** The lost response would have named the command; repeating the request with the same key returns it. */
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
