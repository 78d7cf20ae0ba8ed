/** The connection of a terminal: binary messages are its bytes, text messages are control messages. */
import type { PtyClientMessage, PtyServerMessage } from "@sandkasten/protocol";
import { deferred } from "./deferred.ts";
import { connectionFailed, errorFromBody } from "./errors-from-wire.ts";
import { type ExecInfo, toExecInfo } from "./exec-types.ts";
import { SandboxError } from "./sandbox-error.ts";
import type { WebSocketLike } from "./web-socket.ts";

const NORMAL_CLOSURE = 1000;

/** How the connection ended: with the command, or before it with a reason. */
type End = { readonly info: ExecInfo } | { readonly error: unknown };

export class PtyLink {
  /** Resolves with the command's id. */
  readonly started: Promise<string>;
  readonly exited: Promise<ExecInfo>;
  readonly #socket: WebSocketLike;
  readonly #startedResolvers = deferred<string>();
  readonly #exitedResolvers = deferred<ExecInfo>();
  readonly #signal: AbortSignal | undefined;
  readonly #onAbort = (): void => this.#finish({ error: this.#signal?.reason });
  #queue: Uint8Array[] = [];
  #end: End | undefined;
  #wake: (() => void) | undefined;
  #connected = false;
  #cursor: number;

  constructor(socket: WebSocketLike, cursor: number, signal: AbortSignal | undefined) {
    this.#socket = socket;
    this.#cursor = cursor;
    this.#signal = signal;
    this.started = this.#startedResolvers.promise;
    this.exited = this.#exitedResolvers.promise;
    // Iterating the terminal reports the same failure, so this one may be ignored.
    this.exited.catch(() => undefined);

    socket.binaryType = "arraybuffer";
    socket.addEventListener("open", () => {
      this.#connected = true;
    });
    socket.addEventListener("message", ({ data }) => this.#receive(data));
    socket.addEventListener("close", ({ code, reason }) => {
      const why = reason === "" ? `code ${code}` : reason;
      this.#finish({ error: brokenOff(why) });
    });
    // It carries no information; a runtime that sends no `close` after it must not leave us
    // waiting.
    socket.addEventListener("error", () => this.#finish({ error: brokenOff("no reason given") }));
    if (signal?.aborted === true) this.#onAbort();
    else signal?.addEventListener("abort", this.#onAbort, { once: true });
  }

  /** Whether the daemon accepted the connection. */
  get connected(): boolean {
    return this.#connected;
  }

  get cursor(): number {
    return this.#cursor;
  }

  send(message: PtyClientMessage | Uint8Array<ArrayBuffer>): void {
    if (this.#end !== undefined) {
      throw new SandboxError("CONFLICT", "The terminal's connection has ended.");
    }
    this.#socket.send(message instanceof Uint8Array ? message : JSON.stringify(message));
  }

  close(): void {
    this.#finish({ error: new SandboxError("CANCELLED", "The terminal was closed here.") });
  }

  async *read(): AsyncGenerator<Uint8Array, void, undefined> {
    for (;;) {
      const arrived = this.#queue;
      this.#queue = [];
      let taken = 0;
      try {
        for (const bytes of arrived) {
          taken++;
          yield bytes;
        }
      } finally {
        // What a loop left unread is for the next one.
        this.#queue = [...arrived.slice(taken), ...this.#queue];
      }
      if (this.#queue.length > 0) continue;
      if (this.#end !== undefined) return this.#reportEnd(this.#end);
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
  }

  #reportEnd(end: End): void {
    if ("info" in end) return;
    if (end.error instanceof SandboxError && end.error.code === "CANCELLED") return;
    throw end.error;
  }

  #receive(data: unknown): void {
    if (data instanceof ArrayBuffer) this.#push(new Uint8Array(data));
    if (typeof data !== "string") return;
    try {
      this.#control(JSON.parse(data) as PtyServerMessage);
    } catch (error) {
      this.#finish({ error: connectionFailed("The terminal's connection", error) });
    }
  }

  #push(bytes: Uint8Array): void {
    this.#cursor += bytes.length;
    this.#queue.push(bytes);
    this.#wake?.();
  }

  #control(message: PtyServerMessage): void {
    if (message.type === "started") this.#startedResolvers.resolve(message.exec_id);
    else if (message.type === "skipped") this.#cursor += message.bytes;
    else if (message.type === "exit") this.#finish({ info: toExecInfo(message.exec) });
    else if (message.type === "error") this.#finish({ error: errorFromBody(message.error) });
  }

  #finish(end: End): void {
    if (this.#end !== undefined) return;
    this.#end = end;
    this.#signal?.removeEventListener("abort", this.#onAbort);
    if ("info" in end) this.#exitedResolvers.resolve(end.info);
    else this.#exitedResolvers.reject(end.error);
    const reason = "error" in end ? end.error : brokenOff("it ended before it began");
    this.#startedResolvers.reject(reason);
    this.#wake?.();
    this.#socket.close(NORMAL_CLOSURE);
  }
}

function brokenOff(why: string): SandboxError {
  return new SandboxError("CONNECTION_FAILED", `The terminal's connection broke off (${why}).`);
}
