/** Dials a runner that listens on a unix socket of the host. */
import { connect } from "node:net";
import type { Socket } from "node:net";

/** As much as a socket usually holds, so that one read empties it. */
const READ_BYTES = 262_144;

/**
 * Resolves when connected. The path belongs to a directory that only the daemon can write to; the
 * caller sees to that.
 *
 * Every read goes to the same memory: a `data` event's bytes are valid until its listeners return.
 * Memory of its own for each read, as sockets usually have it, makes garbage as fast as a runner can
 * send. The socket is paused, so that nothing is read before there is a listener: call `resume()`.
 */
export function connectUnixSocket(path: string, signal: AbortSignal): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const buffer = Buffer.allocUnsafeSlow(READ_BYTES);
    const receive = (bytes: number): boolean => socket.emit("data", buffer.subarray(0, bytes));
    const socket = connect({ path, onread: { buffer, callback: receive } }).pause();
    // Not the socket's own `signal` option: that would end the connection later, long after the dialling.
    const giveUp = (): void =>
      void socket.destroy(new Error(`dialling ${path} was given up`, { cause: signal.reason }));
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
