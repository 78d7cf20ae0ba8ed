/** Another Node process at the far end of a plain Unix socket: receives or sends bytes. */
import { fork } from "node:child_process";
import type { ChildProcess } from "node:child_process";
import { once } from "node:events";
import { createConnection } from "node:net";
import type { Socket } from "node:net";
import { join } from "node:path";

/** The size of writes on both sides of every comparison. */
export const PORTION_BYTES = 65_536;

export class PlainPeer implements AsyncDisposable {
  readonly #child: ChildProcess;
  readonly #socketPath: string;

  private constructor(child: ChildProcess, socketPath: string) {
    this.#child = child;
    this.#socketPath = socketPath;
  }

  static async start(directory: string): Promise<PlainPeer> {
    const socketPath = join(directory, "plain-peer.sock");
    const program = join(import.meta.dirname, "plain-peer-process.ts");
    const child = fork(program, [socketPath], { detached: true });
    const ended = once(child, "exit").then(([code]) => {
      throw new Error(`the plain peer ended with ${String(code)} before it listened`);
    });
    await Promise.race([once(child, "message"), ended]);
    ended.catch(() => undefined);
    return new PlainPeer(child, socketPath);
  }

  /** Sends this many bytes and waits until the peer has read the last one. */
  async send(bytes: number, portion: Uint8Array): Promise<void> {
    const socket = await this.#connect(`take ${bytes}\n`);
    const taken = once(socket, "data");
    for (let sent = 0; sent < bytes; sent += portion.byteLength)
      if (!socket.write(portion)) await once(socket, "drain");
    await taken;
    socket.destroy();
  }

  /** Makes the peer send this many bytes and waits for the last one. */
  async receive(bytes: number): Promise<void> {
    const socket = await this.#connect(`give ${bytes}\n`);
    let received = 0;
    for await (const chunk of socket as AsyncIterable<Uint8Array>) received += chunk.byteLength;
    if (received !== bytes) throw new Error(`the plain peer sent ${received} of ${bytes} bytes`);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#child.exitCode !== null || this.#child.signalCode !== null) return;
    const ended = once(this.#child, "exit");
    this.#child.disconnect();
    await ended;
  }

  async #connect(request: string): Promise<Socket> {
    const socket = createConnection(this.#socketPath);
    await once(socket, "connect");
    socket.write(request);
    return socket;
  }
}
