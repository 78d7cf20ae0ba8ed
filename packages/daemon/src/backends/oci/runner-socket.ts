/** Connects to a sandbox's runner through the socket that the launcher bound on the host. */
import { open } from "node:fs/promises";
import { join } from "node:path";
import type { Socket } from "node:net";
import { connectUnixSocket } from "../../channel/unix-socket.ts";

/** The kernel's limit for a socket path, including the terminating NUL. */
const MAX_SOCKET_PATH_BYTES = 108;

/**
 * SECURITY: the socket is in a directory of the host that only root can enter; the sandbox has no
 * path to it and cannot replace it (threat: replaced sockets; guarded by tests/hostile).
 */
export async function dialRunner(stateDir: string, signal: AbortSignal): Promise<Socket> {
  const path = join(stateDir, "runner.sock");
  if (Buffer.byteLength(path) < MAX_SOCKET_PATH_BYTES) return await connectUnixSocket(path, signal);
  // The data directory's path may exceed the length limit of socket paths.
  const directory = await open(stateDir);
  try {
    return await connectUnixSocket(`/proc/self/fd/${directory.fd}/runner.sock`, signal);
  } finally {
    await directory.close();
  }
}
