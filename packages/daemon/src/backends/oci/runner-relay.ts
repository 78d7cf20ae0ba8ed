/** Reaches a runner through the runtime's `exec`, for runtimes that do not pass a socket. */
import { spawn } from "node:child_process";
import { Duplex } from "node:stream";
import { STANDARD_PATH } from "../../find-program.ts";
import { RUNNER_PATH } from "../container/paths.ts";
import type { LauncherRuntime } from "./launcher.ts";

/**
 * SECURITY: `exec` enters a hostile sandbox with a privileged program, which is why crun and runc
 * use a socket instead. gVisor's `exec` asks its own kernel, inside the sandbox, to start the
 * process; the host's side never enters it.
 */
export function relayToRunner(
  runtime: LauncherRuntime,
  id: string,
  signal: AbortSignal,
): Promise<Duplex> {
  const options = ["--root", runtime.root, ...(runtime.args ?? [])];
  const child = spawn(runtime.path, [...options, "exec", id, RUNNER_PATH, "relay"], {
    env: { PATH: STANDARD_PATH },
    // SECURITY: against device access: never "ignore", which would pass the host's /dev/null into
    // the sandbox.
    stdio: "pipe",
  });
  child.stderr.resume();
  return new Promise((resolve, reject) => {
    const giveUp = (): void => void child.kill("SIGKILL");
    signal.addEventListener("abort", giveUp, { once: true });
    if (signal.aborted) giveUp();
    child.once("error", reject);
    child.once("spawn", () => {
      signal.removeEventListener("abort", giveUp);
      const stream = Duplex.from({ readable: child.stdout, writable: child.stdin });
      // The relay ends with its connection, whichever side closes first.
      stream.once("close", () => child.kill("SIGKILL"));
      resolve(stream);
    });
  });
}
