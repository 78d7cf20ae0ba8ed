/** Holds one connection to a runner, opened on first use and reopened after a loss. */
import type { Duplex } from "node:stream";
import { ObservedDeadline } from "../observed-deadline.ts";
import type { ChannelDeadlines, ConnectionOptions } from "./channel-options.ts";
import { Connection } from "./connection.ts";
import { ConnectionFailure } from "./connection-failure.ts";

/** Dials the runner. Must give up when the signal fires. */
export type Connect = (signal: AbortSignal) => Promise<Duplex>;

export class ConnectionHolder {
  readonly #connect: Connect;
  readonly #options: ConnectionOptions;
  #current: Connection | undefined;
  #opening: Promise<Connection> | undefined;
  #closed: ConnectionFailure | undefined;
  readonly #closing = new AbortController();

  constructor(connect: Connect, options: ConnectionOptions) {
    this.#connect = connect;
    this.#options = options;
  }

  get deadlines(): ChannelDeadlines {
    return this.#options.deadlines;
  }

  silenceExpected(): boolean {
    return this.#options.silenceExpected();
  }

  /** The open connection. Synchronous, so the common case needs no event loop turn. */
  get current(): Connection | undefined {
    return this.#current?.usable === true ? this.#current : undefined;
  }

  /** Whether the holder was closed, so no connection is opened. */
  get closed(): boolean {
    return this.#closed !== undefined;
  }

  /** The open connection or a new one. Rejects with a `ConnectionFailure`. */
  get(): Promise<Connection> {
    if (this.#closed !== undefined) return Promise.reject(this.#closed);
    const { current } = this;
    if (current !== undefined) return Promise.resolve(current);
    this.#opening ??= this.#open().finally(() => {
      this.#opening = undefined;
    });
    return this.#opening;
  }

  close(): void {
    this.#closed ??= new ConnectionFailure("closed", "the channel was closed");
    this.#closing.abort(this.#closed);
    this.#current?.fail(this.#closed);
  }

  async #open(): Promise<Connection> {
    const transport = await this.#dial();
    const { signal } = this.#closing;
    // A paused sandbox may take any time to greet.
    const letGo = (): void => void transport.destroy();
    if (signal.aborted) letGo();
    signal.addEventListener("abort", letGo, { once: true });
    try {
      const connection = await Connection.open(transport, this.#options);
      if (this.#closed !== undefined) connection.fail(this.#closed);
      this.#current = connection;
      return connection;
    } catch (error) {
      throw this.#closed ?? error;
    } finally {
      signal.removeEventListener("abort", letGo);
    }
  }

  async #dial(): Promise<Duplex> {
    const tooLate = new AbortController();
    const deadline = new ObservedDeadline(this.deadlines.helloMs, () => tooLate.abort());
    try {
      return await this.#connect(AbortSignal.any([tooLate.signal, this.#closing.signal]));
    } catch (cause) {
      if (this.#closed !== undefined) throw this.#closed;
      if (tooLate.signal.aborted || isQueueFull(cause))
        throw new ConnectionFailure(
          "unresponsive",
          `the sandbox could not be reached within ${String(this.deadlines.helloMs)} ms`,
          cause,
        );
      throw new ConnectionFailure(
        "refused",
        "nothing answers at the address of the sandbox's runner",
        cause,
      );
    } finally {
      deadline.stop();
    }
  }
}

/** A listener exists but accepts so slowly that the kernel's queue is full: it is frozen, not gone. */
function isQueueFull(error: unknown): boolean {
  return error instanceof Error && (error as NodeJS.ErrnoException).code === "EAGAIN";
}
