/** A runner played by a test, frame by frame, on a real unix socket. */
import { mkdtemp, rm } from "node:fs/promises";
import { connect, createServer } from "node:net";
import type { Server, Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import {
  decodeJsonObject,
  encodeFrame,
  encodeJsonFrame,
  encodeOutputFrame,
  FrameDecoder,
  FrameType,
} from "@sandkasten/protocol";
import type { Frame, RunnerOperation } from "@sandkasten/protocol";

export const BOOT_ID = "0123456789abcdef0123456789abcdef";

/** One connection, from the runner's side. */
export class RunnerPeer {
  readonly socket: Socket;
  /** Every CREDIT that arrived, by stream. */
  readonly credits = new Map<number, number>();
  readonly #frames: Frame[] = [];
  readonly #waiting: ((frame: Frame | undefined) => void)[] = [];
  #closed = false;

  constructor(socket: Socket) {
    this.socket = socket;
    const decoder = new FrameDecoder();
    socket.on("data", (chunk) => {
      decoder.push(chunk, (frame) => this.#take({ ...frame, payload: Buffer.from(frame.payload) }));
    });
    socket.on("end", () => this.#close());
    socket.on("close", () => this.#close());
    // A test that breaks the connection on purpose sees it by the other side's reaction.
    socket.on("error", () => this.#close());
  }

  /** Whether the other side has ended the connection. */
  get ended(): boolean {
    return this.#closed;
  }

  send(...frames: Uint8Array[]): void {
    if (!this.#closed) this.socket.write(Buffer.concat(frames));
  }

  hello(bootId = BOOT_ID): void {
    this.send(
      encodeJsonFrame(FrameType.hello, 0, { protocol: 1, runner: "scripted", boot_id: bootId }),
    );
  }

  respond(stream: number, message: object): void {
    this.send(encodeJsonFrame(FrameType.response, stream, message));
  }

  refuse(stream: number, code: string, message = code): void {
    this.send(encodeJsonFrame(FrameType.error, stream, { code, message }));
  }

  event(stream: number, message: object): void {
    this.send(encodeJsonFrame(FrameType.event, stream, message));
  }

  data(stream: number, bytes: string | Uint8Array): void {
    this.send(encodeFrame(FrameType.data, stream, Buffer.from(bytes)));
  }

  output(
    stream: number,
    offset: number,
    bytes: string | Uint8Array,
    fd: 1 | 2 = 1,
    seq = offset,
  ): void {
    this.send(encodeOutputFrame(stream, { fd, seq, offset }, Buffer.from(bytes)));
  }

  started(stream: number, execId: string): void {
    this.event(stream, { event: "started", exec_id: execId, pid: 42 });
  }

  exited(stream: number, execId: string, exitCode = 0): void {
    this.respond(stream, execEndMessage(execId, exitCode));
  }

  /** The next frame other than CREDIT; undefined if the connection has ended. */
  nextFrame(): Promise<Frame | undefined> {
    const frame = this.#frames.shift();
    if (frame !== undefined || this.#closed) return Promise.resolve(frame);
    return new Promise((resolve) => this.#waiting.push(resolve));
  }

  /** Reads up to the next REQUEST, which must be of the named operation, if any. */
  async request(
    op?: RunnerOperation,
  ): Promise<{ stream: number; message: Record<string, unknown> }> {
    for (;;) {
      const frame = await this.nextFrame();
      if (frame === undefined) throw new Error("the connection ended before the request arrived");
      if (frame.type !== FrameType.request) continue;
      const message = decodeJsonObject(frame.payload);
      if (op !== undefined && message["op"] !== op)
        throw new Error(`expected ${op}, got ${JSON.stringify(message)}`);
      return { stream: frame.stream, message };
    }
  }

  /** Resolves when the other side has closed the connection. */
  async closed(): Promise<void> {
    while ((await this.nextFrame()) !== undefined);
  }

  #take(frame: Frame): void {
    if (frame.type === FrameType.credit) {
      this.credits.set(
        frame.stream,
        (this.credits.get(frame.stream) ?? 0) + frame.payload.readUInt32BE(0),
      );
      return;
    }
    const waiting = this.#waiting.shift();
    if (waiting === undefined) this.#frames.push(frame);
    else waiting(frame);
  }

  #close(): void {
    this.#closed = true;
    for (const waiting of this.#waiting.splice(0)) waiting(undefined);
  }
}

/** The RESPONSE to an exec that ended by itself. */
export function execEndMessage(execId: string, exitCode = 0): Record<string, unknown> {
  return {
    exec_id: execId,
    end_reason: "exited",
    exit_code: exitCode,
    duration_ms: 1,
    stdout_bytes: 0,
    stderr_bytes: 0,
    dropped_bytes: 0,
    shell_restarted: false,
  };
}

/** Plays one connection. Its rejection is kept as `failure`. */
export type RunnerScript = (peer: RunnerPeer, connectionNumber: number) => Promise<void> | void;

export class ScriptedRunner implements AsyncDisposable {
  readonly path: string;
  readonly peers: RunnerPeer[] = [];
  failure: unknown;
  readonly #server: Server;
  readonly #directory: string;

  private constructor(directory: string, script: RunnerScript) {
    this.#directory = directory;
    this.path = join(directory, "runner.sock");
    this.#server = createServer({ allowHalfOpen: true }, (socket) => {
      const peer = new RunnerPeer(socket);
      this.peers.push(peer);
      Promise.resolve(script(peer, this.peers.length)).catch((error: unknown) => {
        this.failure = error;
        socket.destroy();
      });
    });
  }

  static async listen(script: RunnerScript): Promise<ScriptedRunner> {
    const runner = new ScriptedRunner(
      await mkdtemp(join(tmpdir(), "sandkasten-scripted-")),
      script,
    );
    await new Promise<void>((resolve, reject) => {
      runner.#server.once("error", reject);
      runner.#server.listen(runner.path, resolve);
    });
    return runner;
  }

  /** For the `connect` option of a channel. */
  readonly connect = (): Promise<Socket> =>
    new Promise((resolve, reject) => {
      const socket = connect(this.path);
      socket.once("error", reject);
      socket.once("connect", () => {
        socket.off("error", reject);
        resolve(socket);
      });
    });

  /** Stops listening: new connections are refused, existing ones stay. */
  stopListening(): void {
    this.#server.close();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const peer of this.peers) peer.socket.destroy();
    this.#server.close();
    await rm(this.#directory, { recursive: true, force: true });
  }
}
