/** Joins a WebSocket to a command: its output out, what is typed in, and a few words about both. */
import { ptyClientMessageSchema, SandboxError } from "@sandkasten/protocol";
import type { PtyServerMessage } from "@sandkasten/protocol";
import type { WebSocket } from "@fastify/websocket";
import { ObservedDeadline } from "../observed-deadline.ts";
import type { Caller, ExecService } from "../sessions/services.ts";
import { signalNumber } from "./bodies/signal-number.ts";
import { ClientGone } from "./response-writer.ts";
import { answerPings } from "./socket-pongs.ts";

/** More than this waits in memory for nobody. */
const MAX_BUFFERED_BYTES = 1_048_576;
const MAX_QUEUED_INPUT_BYTES = 262_144;
/** What a message costs beside its bytes, of which it may have none. */
const MESSAGE_OVERHEAD_BYTES = 256;

type RawData = Buffer | ArrayBuffer | Buffer[];

/** The socket's own words for why it was closed; errors have 4000 and their HTTP status. */
export const CLOSE_CODES = { ended: 1000, stopping: 1001 } as const;

export interface Terminal {
  readonly execs: ExecService;
  readonly caller: Caller;
  readonly sessionId: string;
  readonly execId: string;
}

export interface TerminalSocketOptions {
  /** Ends the connection for what went wrong with input. */
  readonly onInputError: (error: unknown) => void;
  readonly stallTimeoutMs: number;
  readonly pingIntervalMs: number;
}

export class TerminalSocket implements Disposable {
  readonly #socket: WebSocket;
  readonly #options: TerminalSocketOptions;
  readonly #closed = new AbortController();
  #ping: ObservedDeadline;
  #input: Promise<void> = Promise.resolve();
  #queuedBytes = 0;
  #answered = true;

  /** Nothing is read from the socket before there is a command to give it to. */
  constructor(socket: WebSocket, options: TerminalSocketOptions) {
    this.#socket = socket;
    this.#options = options;
    socket.pause();
    socket.once("close", () => this.#closed.abort());
    socket.on("pong", () => (this.#answered = true));
    answerPings(socket);
    this.#ping = this.#nextPing();
  }

  /** Fires when the socket is closed; the command goes on. */
  get signal(): AbortSignal {
    return this.#closed.signal;
  }

  tell(message: PtyServerMessage): void {
    if (this.#socket.readyState === this.#socket.OPEN) this.#socket.send(JSON.stringify(message));
  }

  /** Output from a cursor on until the command ends; what is typed meanwhile goes to its input. */
  async connect(terminal: Terminal, cursor: number): Promise<void> {
    const { execs, caller, sessionId, execId } = terminal;
    this.#socket.on("message", (data, isBinary) => this.#receive(terminal, data, isBinary));
    this.#socket.resume();
    for await (const page of execs.follow(caller, sessionId, execId, {
      offset: cursor,
      signal: this.signal,
    })) {
      if (page.skippedBytes > 0) this.tell({ type: "skipped", bytes: page.skippedBytes });
      for (const { bytes } of page.chunks) await this.#sendBytes(bytes);
    }
  }

  close(code: number, reason: string): void {
    // The other side's goodbye must be read.
    this.#socket.resume();
    this.#socket.close(code, reason);
    // Whoever does not answer a goodbye is not waited for.
    const deadline = this.#terminateLater();
    this.#socket.once("close", () => deadline.stop());
  }

  fail(error: { readonly status: number; readonly code: string; readonly message: string }): void {
    this.tell({ type: "error", error: { error_code: error.code, message: error.message } });
    this.close(4000 + error.status, error.code);
  }

  [Symbol.dispose](): void {
    this.#ping.stop();
  }

  #receive(terminal: Terminal, data: RawData, isBinary: boolean): void {
    const bytes = bufferOf(data);
    const cost = bytes.byteLength + MESSAGE_OVERHEAD_BYTES;
    this.#queuedBytes += cost;
    // What the command does not read must not pile up here.
    if (this.#queuedBytes > MAX_QUEUED_INPUT_BYTES) this.#socket.pause();
    this.#input = this.#input
      .then(() => (isBinary ? type(terminal, bytes) : control(terminal, bytes.toString())))
      .catch((error: unknown) => this.#refuseInput(error))
      .finally(() => {
        this.#queuedBytes -= cost;
        if (this.#socket.isPaused && this.#queuedBytes <= MAX_QUEUED_INPUT_BYTES)
          this.#socket.resume();
      });
  }

  #refuseInput(error: unknown): void {
    // Keys that were pressed while the command ended are nobody's mistake.
    if (error instanceof SandboxError && error.code === "CONFLICT") return;
    this.#options.onInputError(error);
  }

  async #sendBytes(bytes: Uint8Array): Promise<void> {
    if (this.#socket.readyState !== this.#socket.OPEN) throw new ClientGone("the socket is closed");
    const sent = new Promise<void>((resolve, reject) =>
      this.#socket.send(bytes, { binary: true }, (error) =>
        error instanceof Error
          ? reject(new ClientGone("the socket is closed", { cause: error }))
          : resolve(),
      ),
    );
    // Awaited only under pressure; a failure shows at the next send.
    sent.catch(() => undefined);
    if (this.#socket.bufferedAmount > MAX_BUFFERED_BYTES) await this.#untilStall(sent);
  }

  async #untilStall(sent: Promise<void>): Promise<void> {
    const deadline = this.#terminateLater();
    try {
      await sent;
    } finally {
      deadline.stop();
    }
  }

  #terminateLater(): ObservedDeadline {
    return new ObservedDeadline(this.#options.stallTimeoutMs, () => this.#socket.terminate());
  }

  #nextPing(): ObservedDeadline {
    return new ObservedDeadline(this.#options.pingIntervalMs, () => {
      this.#ping = this.#nextPing();
      this.#checkAlive();
    });
  }

  /** While we do not read, a pong cannot be seen. */
  #checkAlive(): void {
    if (this.#socket.readyState !== this.#socket.OPEN || this.#socket.isPaused) return;
    if (!this.#answered) {
      this.#socket.terminate();
      return;
    }
    this.#answered = false;
    this.#socket.ping();
  }
}

async function type(terminal: Terminal, bytes: Uint8Array): Promise<void> {
  const { execs, caller, sessionId, execId } = terminal;
  await execs.writeStdin(caller, sessionId, execId, bytes);
}

async function control(terminal: Terminal, text: string): Promise<void> {
  const { execs, caller, sessionId, execId } = terminal;
  const message = parseControl(text);
  switch (message.type) {
    case "resize":
      await execs.resize(caller, sessionId, execId, { rows: message.rows, cols: message.cols });
      break;
    case "signal":
      await execs.signal(caller, sessionId, execId, signalNumber(message.signal));
      break;
    case "eof":
      await execs.closeStdin(caller, sessionId, execId);
      break;
  }
}

function parseControl(text: string) {
  let json: unknown;
  try {
    json = JSON.parse(text);
  } catch (cause) {
    throw new SandboxError(
      "INVALID_REQUEST",
      "a text message must be JSON; send what is typed as binary",
      {
        cause,
      },
    );
  }
  const parsed = ptyClientMessageSchema.safeParse(json);
  if (parsed.success) return parsed.data;
  throw new SandboxError(
    "INVALID_REQUEST",
    "a text message must be of the type resize (rows, cols), signal (signal) or eof",
  );
}

function bufferOf(data: RawData): Buffer {
  if (Buffer.isBuffer(data)) return data;
  return Array.isArray(data) ? Buffer.concat(data) : Buffer.from(data);
}
