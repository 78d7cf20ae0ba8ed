/** The channel into a sandbox whose runner speaks our protocol, over any byte stream. */
import {
  cancelledSchema,
  emptySchema,
  execListSchema,
  pingSchema,
  portListSchema,
  shellListSchema,
  signalledSchema,
} from "@sandkasten/protocol";
import type { DirectoryPage, FileEntry, NamedPath } from "@sandkasten/protocol";
import type {
  Channel,
  ChannelHealth,
  ExecCommand,
  ExecInfo,
  ExecOptions,
  ExecStream,
  FileChange,
  FileRead,
  ListeningPort,
  NetworkHandler,
  OpenNetwork,
  PortConnection,
  SandboxPath,
  ShellInfo,
  TerminalSize,
} from "../ports/channel.ts";
import { call, checkRequest, connectionFor } from "./call.ts";
import { DEFAULT_DEADLINES } from "./channel-options.ts";
import type { ChannelDeadlines, ConnectionOptions } from "./channel-options.ts";
import { ConnectionHolder } from "./connection-holder.ts";
import type { Connect } from "./connection-holder.ts";
import { execRequest } from "./exec-request.ts";
import { RunnerExecStream } from "./exec-stream.ts";
import { FileOperations } from "./file-operations.ts";
import { offerNetwork } from "./network-offer.ts";
import { dialPort } from "./port-connection.ts";
import { watchFiles } from "./watch.ts";

export interface RunnerChannelOptions {
  /** Dials the runner: a unix socket, or the standard streams of a relay. */
  readonly connect: Connect;
  readonly deadlines?: Partial<ChannelDeadlines>;
  readonly silenceExpected?: ConnectionOptions["silenceExpected"];
  readonly fence?: ConnectionOptions["fence"];
}

export class RunnerChannel implements Channel {
  readonly #holder: ConnectionHolder;
  readonly #files: FileOperations;

  constructor(options: RunnerChannelOptions) {
    const { connect, silenceExpected = () => false, fence } = options;
    const deadlines = { ...DEFAULT_DEADLINES, ...options.deadlines };
    this.#holder = new ConnectionHolder(connect, { deadlines, silenceExpected, fence });
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

  async cancel(execId: string): Promise<boolean> {
    const request = { op: "cancel", exec_id: execId } as const;
    return (await call(this.#holder, request, cancelledSchema)).cancelled;
  }

  shells(): Promise<ShellInfo[]> {
    return call(this.#holder, { op: "shells" }, shellListSchema);
  }

  async closeShell(name: string): Promise<void> {
    await call(this.#holder, { op: "close_shell", shell: name }, emptySchema);
  }

  listExecs(): Promise<ExecInfo[]> {
    return call(this.#holder, { op: "execs" }, execListSchema);
  }

  async forgetExec(execId: string): Promise<void> {
    await call(this.#holder, { op: "forget", exec_id: execId }, emptySchema);
  }

  stat(...args: Parameters<Channel["stat"]>): Promise<FileEntry> {
    return this.#files.stat(...args);
  }

  realpath(...args: Parameters<Channel["realpath"]>): Promise<NamedPath> {
    return this.#files.realpath(...args);
  }

  readFile(...args: Parameters<Channel["readFile"]>): Promise<FileRead> {
    return this.#files.readFile(...args);
  }

  writeFile(...args: Parameters<Channel["writeFile"]>): ReturnType<Channel["writeFile"]> {
    return this.#files.writeFile(...args);
  }

  appendFile(...args: Parameters<Channel["appendFile"]>): ReturnType<Channel["appendFile"]> {
    return this.#files.appendFile(...args);
  }

  listDirectory(...args: Parameters<Channel["listDirectory"]>): Promise<DirectoryPage> {
    return this.#files.listDirectory(...args);
  }

  makeDirectory(...args: Parameters<Channel["makeDirectory"]>): Promise<NamedPath> {
    return this.#files.makeDirectory(...args);
  }

  move(...args: Parameters<Channel["move"]>): Promise<NamedPath> {
    return this.#files.move(...args);
  }

  copy(...args: Parameters<Channel["copy"]>): ReturnType<Channel["copy"]> {
    return this.#files.copy(...args);
  }

  remove(...args: Parameters<Channel["remove"]>): Promise<NamedPath> {
    return this.#files.remove(...args);
  }

  watch(
    path: SandboxPath,
    options: { readonly recursive?: boolean } = {},
    signal?: AbortSignal,
  ): Promise<AsyncIterable<FileChange>> {
    return watchFiles(this.#holder, path, options, signal);
  }

  extractTar(...args: Parameters<Channel["extractTar"]>): ReturnType<Channel["extractTar"]> {
    return this.#files.extractTar(...args);
  }

  createTar(...args: Parameters<Channel["createTar"]>): ReturnType<Channel["createTar"]> {
    return this.#files.createTar(...args);
  }

  listPorts(): Promise<ListeningPort[]> {
    return call(this.#holder, { op: "ports" }, portListSchema);
  }

  dial(port: number, signal?: AbortSignal): Promise<PortConnection> {
    return dialPort(this.#holder, port, signal);
  }

  openNetwork(handler: NetworkHandler): Promise<OpenNetwork> {
    return offerNetwork(this.#holder, handler);
  }

  /** Whether a connection is open, so the next request does not have to dial. */
  get isConnected(): boolean {
    return this.#holder.current !== undefined;
  }

  ping(): Promise<ChannelHealth> {
    return call(this.#holder, { op: "ping" }, pingSchema);
  }

  close(): void {
    this.#holder.close();
  }
}
