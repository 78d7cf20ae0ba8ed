/** The channel into a sandbox whose runner speaks our protocol, over any stream of bytes. */
import { emptySchema, execListSchema, pingSchema, signalledSchema } from "@sandkasten/protocol";
import type { DirectoryPage, FileEntry } from "@sandkasten/protocol";
import type {
  Channel,
  ChannelHealth,
  ExecCommand,
  ExecInfo,
  ExecOptions,
  ExecStream,
  FileChange,
  FileRead,
  PortConnection,
  TerminalSize,
} from "../ports/channel.ts";
import { call, checkRequest, connectionFor } from "./call.ts";
import { DEFAULT_DEADLINES } from "./channel-options.ts";
import type { ChannelDeadlines } from "./channel-options.ts";
import { ConnectionHolder } from "./connection-holder.ts";
import type { Connect } from "./connection-holder.ts";
import { execRequest } from "./exec-request.ts";
import { RunnerExecStream } from "./exec-stream.ts";
import { FileOperations } from "./file-operations.ts";
import { dialPort } from "./port-connection.ts";
import { watchFiles } from "./watch.ts";

export interface RunnerChannelOptions {
  /** Dials the runner: a unix socket, or the standard streams of a relay. */
  readonly connect: Connect;
  readonly deadlines?: Partial<ChannelDeadlines>;
  /** Says true while the sandbox is paused: then its silence is no failure. */
  readonly silenceExpected?: () => boolean;
}

export class RunnerChannel implements Channel {
  readonly #holder: ConnectionHolder;
  readonly #files: FileOperations;

  constructor(options: RunnerChannelOptions) {
    const deadlines = { ...DEFAULT_DEADLINES, ...options.deadlines };
    this.#holder = new ConnectionHolder(
      options.connect,
      deadlines,
      options.silenceExpected ?? (() => false),
    );
    this.#files = new FileOperations(this.#holder);
  }

  async exec(
    command: ExecCommand,
    options: ExecOptions,
    signal?: AbortSignal,
  ): Promise<ExecStream> {
    const first = execRequest(command, options);
    const connection = await connectionFor(this.#holder, "exec");
    const stream = {
      execId: options.execId,
      first,
      offset: 0,
      until: "done",
      stdin: options.stdin === true,
      timeoutMs: options.timeoutMs,
    } as const;
    return RunnerExecStream.open(this.#holder, connection, stream, signal);
  }

  async attach(
    execId: string,
    options: Parameters<Channel["attach"]>[1] = {},
    signal?: AbortSignal,
  ): Promise<ExecStream> {
    const { offset = 0, until = "done", stdin = false } = options;
    const request = checkRequest({
      op: "attach",
      exec_id: execId,
      offset,
      until,
      ...(stdin && { stdin }),
    });
    const connection = await connectionFor(this.#holder, "attach");
    const stream = { execId, first: { request, body: undefined }, offset, until, stdin };
    return RunnerExecStream.open(this.#holder, connection, stream, signal);
  }

  async signal(
    execId: string,
    signalNumber: number,
    options: Parameters<Channel["signal"]>[2] = {},
  ): Promise<number> {
    const request = { op: "signal", exec_id: execId, signal: signalNumber, ...options } as const;
    return (await call(this.#holder, request, signalledSchema)).delivered;
  }

  async resize(execId: string, { rows, cols }: TerminalSize): Promise<void> {
    await call(this.#holder, { op: "resize", exec_id: execId, rows, cols }, emptySchema);
  }

  listExecs(): Promise<ExecInfo[]> {
    return call(this.#holder, { op: "execs" }, execListSchema);
  }

  async forgetExec(execId: string): Promise<void> {
    await call(this.#holder, { op: "forget", exec_id: execId }, emptySchema);
  }

  stat(path: string): Promise<FileEntry> {
    return this.#files.stat(path);
  }

  readFile(...args: Parameters<Channel["readFile"]>): Promise<FileRead> {
    return this.#files.readFile(...args);
  }

  writeFile(...args: Parameters<Channel["writeFile"]>): ReturnType<Channel["writeFile"]> {
    return this.#files.writeFile(...args);
  }

  listDirectory(...args: Parameters<Channel["listDirectory"]>): Promise<DirectoryPage> {
    return this.#files.listDirectory(...args);
  }

  makeDirectory(...args: Parameters<Channel["makeDirectory"]>): Promise<string> {
    return this.#files.makeDirectory(...args);
  }

  move(...args: Parameters<Channel["move"]>): Promise<string> {
    return this.#files.move(...args);
  }

  remove(...args: Parameters<Channel["remove"]>): Promise<string> {
    return this.#files.remove(...args);
  }

  watch(
    path: string,
    options: { readonly recursive?: boolean } = {},
    signal?: AbortSignal,
  ): Promise<AsyncIterable<FileChange>> {
    return watchFiles(this.#holder, path, options, signal);
  }

  extractTar(...args: Parameters<Channel["extractTar"]>): ReturnType<Channel["extractTar"]> {
    return this.#files.extractTar(...args);
  }

  createTar(path: string): Promise<ReadableStream<Uint8Array>> {
    return this.#files.createTar(path);
  }

  dial(port: number, signal?: AbortSignal): Promise<PortConnection> {
    return dialPort(this.#holder, port, signal);
  }

  ping(): Promise<ChannelHealth> {
    return call(this.#holder, { op: "ping" }, pingSchema);
  }

  close(): void {
    this.#holder.close();
  }
}
