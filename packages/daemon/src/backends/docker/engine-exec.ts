/** Starts programs in running containers. */
import type Docker from "dockerode";
import { engineFailure, engineRefusal, engineUnreachable } from "./engine-errors.ts";
import type { EngineRefusal } from "./engine-errors.ts";
import { EngineStream } from "./engine-stream.ts";

/** What makes an exec impossible. */
export type NoExec = "absent" | "paused" | "not running";

/** Returns the program's standard streams. The signal aborts the attempt, not the streams. */
export async function startExec(
  docker: Docker,
  name: string,
  options: Docker.ExecCreateOptions,
  signal: AbortSignal,
): Promise<EngineStream | NoExec> {
  let doing = "creating an exec";
  const attempt = new AbortController();
  const given = Promise.withResolvers<never>();
  const giveUp = (): void => given.reject(engineUnreachable(doing, signal.reason));
  signal.addEventListener("abort", giveUp, { once: true });
  try {
    signal.throwIfAborted();
    const streams = { AttachStdin: true, AttachStdout: true, AttachStderr: true, Tty: false };
    const abortSignal = attempt.signal;
    const created = docker.getContainer(name).exec({ ...options, ...streams, abortSignal });
    const exec = await Promise.race([created, given.promise]);
    doing = "attaching to an exec";
    const started = exec.start({ hijack: true, stdin: true, abortSignal });
    return new EngineStream(await Promise.race([started, given.promise]));
  } catch (error) {
    // The library leaves the connection open if the engine refuses to start.
    attempt.abort();
    const reason = noExecReason(engineRefusal(error));
    if (reason !== undefined) return reason;
    throw engineFailure(error, doing);
  } finally {
    signal.removeEventListener("abort", giveUp);
    given.promise.catch(() => undefined);
  }
}

/** The engine has one status for all of them, so its words decide. */
function noExecReason(refusal: EngineRefusal | undefined): NoExec | undefined {
  if (refusal?.status === 404) return "absent";
  if (
    refusal === undefined ||
    !/container .* (?:is|not)|paused|not running/iu.test(refusal.message)
  )
    return undefined;
  return /paused/iu.test(refusal.message) ? "paused" : "not running";
}
