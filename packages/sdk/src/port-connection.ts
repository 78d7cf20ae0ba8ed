/** A connection to a port of a sandbox, over a WebSocket. */
import type { CallOptions } from "./call-options.ts";
import { MESSAGE_BYTES, openSocket } from "./open-socket.ts";
import { PortLink } from "./port-link.ts";
import { type Call, path, type Transport } from "./transport.ts";

/** The most that either side sends before the other acknowledges some of it. */
const WINDOW_BYTES = 1_048_576;

/** A program that listens on a TCP port inside a sandbox. */
export interface PortInfo {
  readonly port: number;
  readonly address: string;
  /** Process id inside the sandbox, if known. */
  readonly pid?: number | undefined;
  /** Name of the process, if known. */
  readonly process?: string | undefined;
}

/**
 * An open connection. Bytes wait at their source until they are read: neither stream buffers more
 * than a megabyte. Closing `writable` closes that direction; `readable` continues.
 */
export class PortConnection implements Disposable {
  /** Bytes from the port, until it ends. */
  readonly readable: ReadableStream<Uint8Array>;
  /** Bytes to the port. */
  readonly writable: WritableStream<Uint8Array>;
  readonly #link: PortLink;

  /** @internal */
  constructor(link: PortLink) {
    this.#link = link;
    this.readable = new ReadableStream<Uint8Array>(
      {
        pull: async (controller) => {
          const bytes = await link.next();
          if (bytes === undefined) controller.close();
          else controller.enqueue(bytes);
        },
        cancel: () => link.close(),
      },
      // Nothing is read ahead of the consumer, since reading acknowledges.
      { highWaterMark: 0 },
    );
    this.writable = new WritableStream<Uint8Array>({
      write: async (chunk) => {
        for (let from = 0; from < chunk.length; from += MESSAGE_BYTES)
          await link.send(new Uint8Array(chunk.subarray(from, from + MESSAGE_BYTES)));
      },
      close: () => link.end(),
      abort: () => link.close(),
    });
  }

  /** Ends the connection at once, in both directions. */
  close(): void {
    this.#link.close();
  }

  /** Ends the connection at once. */
  [Symbol.dispose](): void {
    this.close();
  }
}

/** Resolves when the port has accepted the connection. */
export async function connectToPort(
  transport: Transport,
  sessionId: string,
  port: number,
  { signal }: CallOptions,
): Promise<PortConnection> {
  signal?.throwIfAborted();
  const call: Call = {
    method: "GET",
    path: path`/v1/sessions/${sessionId}/ports/${String(port)}/connect`,
    query: { window: WINDOW_BYTES },
    signal,
  };
  const link = new PortLink(openSocket(transport, call), WINDOW_BYTES, signal);
  try {
    await link.connected;
    return new PortConnection(link);
  } catch (error) {
    signal?.throwIfAborted();
    // A WebSocket does not report why it was refused. The same request without the upgrade does.
    if (!link.accepted) await transport.json(call);
    throw error;
  }
}
