/** A terminal in a sandbox, over a WebSocket. */
import type { CallOptions } from "./call-options.ts";
import type { ExecInfo, TerminalSize } from "./exec-types.ts";
import { MESSAGE_BYTES, openSocket } from "./open-socket.ts";
import { PtyLink } from "./pty-link.ts";
import { camelOptions, type WithSnakeNames } from "./snake-names.ts";
import { type Call, path, type Transport } from "./transport.ts";

interface PtyOptionFields extends CallOptions {
  /** Shell text to run in the terminal. A login shell by default. */
  readonly cmd?: string | undefined;
  /** Run `cmd` in this named shell, which gets a terminal if it has none. */
  readonly shell?: string | undefined;
  readonly cwd?: string | undefined;
  readonly rows?: number | undefined;
  readonly cols?: number | undefined;
  /** Reattaches to this terminal instead of opening one. */
  readonly execId?: string | undefined;
  /** With `execId`: replays its output from this byte on. */
  readonly cursor?: number | undefined;
}

/** Which terminal to open. */
export type PtyOptions = WithSnakeNames<PtyOptionFields>;

/** An open terminal. Iterate it for its output; the loop ends with it. */
export class Pty implements AsyncIterable<Uint8Array>, Disposable {
  /** The command that is running in the terminal, for `session.getExec` and for reattaching. */
  readonly execId: string;
  /** How the command ended. Rejects if the connection ends before it. */
  readonly exited: Promise<ExecInfo>;
  readonly #link: PtyLink;

  /** @internal */
  constructor(link: PtyLink, execId: string) {
    this.#link = link;
    this.execId = execId;
    this.exited = link.exited;
  }

  /** The same as `execId`. */
  get exec_id(): string {
    return this.execId;
  }

  /** The end of the received output: the `cursor` for reattaching. */
  get cursor(): number {
    return this.#link.cursor;
  }

  /** Sends input. */
  write(data: string | Uint8Array): void {
    const bytes = typeof data === "string" ? new TextEncoder().encode(data) : new Uint8Array(data);
    for (let from = 0; from < bytes.length; from += MESSAGE_BYTES) {
      this.#link.send(bytes.subarray(from, from + MESSAGE_BYTES));
    }
  }

  /** Resizes the terminal. */
  resize(size: TerminalSize): void {
    this.#link.send({ type: "resize", rows: size.rows, cols: size.cols });
  }

  /** Sends a signal, by name or number, to the running processes. */
  signal(signal: string | number): void {
    this.#link.send({ type: "signal", signal });
  }

  /** Ends the input. */
  eof(): void {
    this.#link.send({ type: "eof" });
  }

  /** Disconnects. The terminal's processes continue, and `execId` reattaches to it. */
  close(): void {
    this.#link.close();
  }

  /** The terminal's output. */
  [Symbol.asyncIterator](): AsyncGenerator<Uint8Array, void, undefined> {
    return this.#link.read();
  }

  /** Disconnects. */
  [Symbol.dispose](): void {
    this.close();
  }
}

/** Resolves when the daemon reports which command runs in the terminal. */
export async function openPty(
  transport: Transport,
  sessionId: string,
  options: PtyOptions,
): Promise<Pty> {
  const { cmd, shell, cwd, rows, cols, execId, cursor, signal } = camelOptions(options);
  signal?.throwIfAborted();
  const call: Call = {
    method: "GET",
    path: path`/v1/sessions/${sessionId}/pty`,
    query: { cmd, shell, cwd, rows, cols, exec_id: execId, cursor },
    signal,
  };
  const link = new PtyLink(openSocket(transport, call), cursor ?? 0, signal);
  try {
    return new Pty(link, await link.started);
  } catch (error) {
    signal?.throwIfAborted();
    // A WebSocket does not report why it was refused. The same request without the upgrade does.
    if (!link.connected) await transport.json(call);
    throw error;
  }
}
