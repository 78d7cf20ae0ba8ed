/** Connects a WebSocket to a command: its output, its input, and control messages. */
import { ptyClientMessageSchema, SandboxError } from "@sandkasten/protocol";
import type { PtyServerMessage } from "@sandkasten/protocol";
import type { WebSocket } from "@fastify/websocket";
import type { ExecHandle } from "../../../../sessions/services/exec-service.ts";
import { signalNumber } from "../../bodies/signal-number.ts";
import { MessageSocket } from "../../../http/sockets/message-socket.ts";
import type { MessageSocketOptions } from "../../../http/sockets/message-socket.ts";

const MAX_QUEUED_INPUT_BYTES = 262_144;
/** The cost of a message in addition to its bytes, since it may be empty. */
const MESSAGE_OVERHEAD_BYTES = 256;

export interface TerminalSocketOptions extends MessageSocketOptions {
  /** Ends the connection after an input error. */
  readonly onInputError: (error: unknown) => void;
}

/** When it closes, the command continues. */
export class TerminalSocket extends MessageSocket<PtyServerMessage> {
  readonly #onInputError: TerminalSocketOptions["onInputError"];
  #input: Promise<void> = Promise.resolve();
  #queuedBytes = 0;

  constructor(socket: WebSocket, options: TerminalSocketOptions) {
    super(socket, options);
    this.#onInputError = options.onInputError;
  }

  /** Sends output from a cursor on until the command ends; input meanwhile goes to the command. */
  async connect(exec: ExecHandle, cursor: number): Promise<void> {
    this.listen((bytes, isBinary) => this.#receive(exec, bytes, isBinary));
    for await (const page of exec.follow({ offset: cursor, signal: this.signal })) {
      if (page.skippedBytes > 0) this.sendMessage({ type: "skipped", bytes: page.skippedBytes });
      for (const { bytes } of page.chunks) await this.sendBytes(bytes);
    }
  }

  #receive(exec: ExecHandle, bytes: Buffer, isBinary: boolean): void {
    const cost = bytes.byteLength + MESSAGE_OVERHEAD_BYTES;
    this.#queuedBytes += cost;
    // Input that the command does not read must not pile up here.
    if (this.#queuedBytes > MAX_QUEUED_INPUT_BYTES) this.socket.pause();
    this.#input = this.#input
      .then(() => (isBinary ? exec.writeStdin(bytes) : control(exec, bytes.toString())))
      .catch((error: unknown) => this.#refuseInput(error))
      .finally(() => {
        this.#queuedBytes -= cost;
        if (this.socket.isPaused && this.#queuedBytes <= MAX_QUEUED_INPUT_BYTES)
          this.socket.resume();
      });
  }

  #refuseInput(error: unknown): void {
    // Keys pressed while the command was ending are not an error.
    if (error instanceof SandboxError && error.code === "CONFLICT") return;
    this.#onInputError(error);
  }
}

async function control(exec: ExecHandle, text: string): Promise<void> {
  const message = parseControl(text);
  switch (message.type) {
    case "resize":
      await exec.resize({ rows: message.rows, cols: message.cols });
      break;
    case "signal":
      await exec.signal(signalNumber(message.signal));
      break;
    case "eof":
      await exec.closeStdin();
      break;
  }
}

function parseControl(text: string) {
  let json: unknown;
  try {
    json = JSON.parse(text);
  } catch (cause) {
    throw new SandboxError("INVALID_REQUEST", "a text message must be JSON; send input as binary", {
      cause,
    });
  }
  const parsed = ptyClientMessageSchema.safeParse(json);
  if (parsed.success) return parsed.data;
  throw new SandboxError(
    "INVALID_REQUEST",
    "a text message must be of the type resize (rows, cols), signal (signal) or eof",
  );
}
