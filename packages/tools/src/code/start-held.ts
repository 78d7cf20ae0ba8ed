/** Starts a background command that does not outlive this process. */
import type { Command, Exec, ExecOptions, ExecStream, Session } from "@sandkasten/sdk";

/**
 * A running command keeps its session alive whatever its lease says. The daemon cancels this one
 * when the connection that started it breaks, which also happens when this process ends.
 */
export async function startHeld(
  session: Session,
  cmd: Command,
  options: ExecOptions,
  signal: AbortSignal | undefined,
): Promise<Exec> {
  const starting = new AbortController();
  const abort = (): void => starting.abort(signal?.reason);
  signal?.addEventListener("abort", abort, { once: true });
  try {
    signal?.throwIfAborted();
    const stream = session.stream(cmd, {
      ...options,
      onDisconnect: "cancel",
      signal: starting.signal,
    });
    const exec = await stream.exec;
    void hold(stream);
    return exec;
  } finally {
    signal?.removeEventListener("abort", abort);
  }
}

/** Consumes the stream to its end; callers read the output by the command's id. */
async function hold(stream: ExecStream): Promise<void> {
  try {
    for await (const _ of stream);
  } catch {
    // The failure is reported to callers that query the command by its id.
  }
}
