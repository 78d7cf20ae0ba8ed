/** Starts a command that goes on by itself, but not longer than this process. */
import type { Command, Exec, ExecOptions, ExecStream, Session } from "@sandkasten/sdk";

/**
 * A command in progress keeps its session alive whatever its lease says. The daemon cancels this one
 * when the connection that started it breaks, which the end of this process does, too.
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

/** Reads to the end what others read for themselves by the command's id. */
async function hold(stream: ExecStream): Promise<void> {
  try {
    for await (const _ of stream);
  } catch {
    // Who asks for the command by its id learns of the failure.
  }
}
