/** Connects to a runner that listens on a unix socket of the host. */
import { connect } from "node:net";
import type { Socket } from "node:net";

/** The usual capacity of a socket buffer, so one read empties it. */
const READ_BYTES = 262_144;

/**
 * Resolves when connected. The caller must ensure that only the daemon can write to the socket's
 * directory.
 *
 * Every read uses the same buffer: a `data` event's bytes are valid until its listeners return. A new
 * buffer for each read, as sockets usually allocate, would create garbage as fast as a runner sends.
 * The socket is paused, so nothing is read before there is a listener: call `resume()`.
 */
export function connectUnixSocket(path: string, signal: AbortSignal): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const buffer = Buffer.allocUnsafeSlow(READ_BYTES);
    const receive = (bytes: number): boolean => socket.emit("data", buffer.subarray(0, bytes));
    const socket = connect({ path, onread: { buffer, callback: receive } }).pause();
    // Not the socket's own `signal` option, which would also end the connection after dialling.
    const giveUp = (): void =>
      void socket.destroy(new Error(`dialling ${path} was cancelled`, { cause: signal.reason }));
    signal.addEventListener("abort", giveUp, { once: true });
    if (signal.aborted) giveUp();
    socket.once("error", (error) => {
      signal.removeEventListener("abort", giveUp);
      reject(error);
    });
    socket.once("connect", () => {
      signal.removeEventListener("abort", giveUp);
      socket.removeAllListeners("error");
      resolve(socket);
    });
  });
}
