/** A session: a sandbox with its stateful shell and its files. */
import type {
  ImageBody,
  EgressPageBody,
  ExecResultBody,
  ExecInfoBody,
  IsolationBody,
  PortListBody,
  PreviewUrlBody,
  SessionBody,
  StatsBody,
} from "@sandkasten/protocol";
import { followEgress } from "./follow-egress.ts";
import type { CallOptions } from "./call-options.ts";
import { cancelsOnAbort, cancelStarted } from "./cancel-started.ts";
import { followEvents, type SandboxEvent, type SessionEventOptions } from "./events.ts";
import { Exec } from "./exec.ts";
import { type ExecChunk, execChunks } from "./exec-chunks.ts";
import { ExecStream } from "./exec-stream.ts";
import {
  type Command,
  type ExecInfo,
  type ExecOptions,
  type ExecResult,
  type StartOptions,
  toExecInfo,
  toExecRequest,
  toExecResult,
} from "./exec-types.ts";
import type { FileSource } from "./file-types.ts";
import type { ReadFileOptions, WriteFileOptions, WrittenFile } from "./file-options.ts";
import { Files } from "./files.ts";
import { type ImageInfo, toImageInfo } from "./image-types.ts";
import { connectToPort, type PortConnection, type PortInfo } from "./port-connection.ts";
import {
  type EgressOptions,
  type EgressPage,
  type EgressRecord,
  type NetworkRequest,
  toEgressPage,
  toNetwork,
} from "./network-types.ts";
import { openPty, type Pty, type PtyOptions } from "./pty.ts";
import type { SandboxPath } from "./sandbox-path.ts";
import { Shell, type ShellInfo, toShellInfos } from "./shell.ts";
import { SessionState } from "./session-state.ts";
import {
  type IsolationReport,
  type SessionInfo,
  type SessionStats,
  toIsolationReport,
  toSessionInfo,
  toSessionStats,
} from "./session-types.ts";
import { camelOptions, type WithSnakeNames } from "./snake-names.ts";
import { type Call, path, type Transport } from "./transport.ts";
import type { ExecPageBody, ShellListBody } from "./wire-bodies.ts";

interface RenewOptionFields extends CallOptions {
  /** A new time to live for this session. Unchanged by default. */
  readonly ttlSeconds?: number | undefined;
}

interface UrlOptionFields extends CallOptions {
  /** How long the URL works. One hour by default. */
  readonly expiresInSeconds?: number | undefined;
}

/** Options for the URL of a port. */
export type UrlOptions = WithSnakeNames<UrlOptionFields>;

/** Options for renewing a session. */
export type RenewOptions = WithSnakeNames<RenewOptionFields>;

/** `await using` destroys it at the end of the block. */
export class Session extends SessionState implements AsyncDisposable {
  /** Its files. */
  readonly files: Files;
  readonly #created: boolean;
  readonly #transport: Transport;
  readonly #base: string;

  /** @internal */
  constructor(transport: Transport, info: SessionInfo, created = false) {
    super(info);
    this.#created = created;
    this.#transport = transport;
    this.#base = path`/v1/sessions/${info.id}`;
    this.files = new Files(transport, this.#base);
  }

  /** Whether `createSession` created the session, instead of finding the active session for the `key`. */
  get created(): boolean {
    return this.#created;
  }

  /** Gets the current state and updates the session's own fields. */
  info(options: CallOptions = {}): Promise<SessionInfo> {
    return this.refresh(options);
  }

  /** The same as `info`. */
  refresh(options: CallOptions = {}): Promise<SessionInfo> {
    return this.#update({ method: "GET", path: this.#base, signal: options.signal });
  }

  /**
   * Runs a command to its end. An exit code is a result, never an error; a command that exceeds its
   * timeout throws `COMMAND_TIMEOUT`, with its output in `error.result`.
   */
  async exec(cmd: Command, options: ExecOptions = {}): Promise<ExecResult> {
    const call = { ...this.#execCall("/exec", cmd, options), waits: true };
    try {
      return toExecResult(await this.#transport.json<ExecResultBody>(call));
    } catch (error) {
      if (cancelsOnAbort(options)) await cancelStarted(this.#transport, this.id, call);
      throw error;
    }
  }

  /** Runs a command and streams its output. */
  stream(cmd: Command, options: ExecOptions = {}): ExecStream {
    return new ExecStream(this.#transport, this.id, cmd, options);
  }

  /** Runs a command; one loop yields its output and then its end. `stream` has more features. */
  execStream(cmd: Command, options: ExecOptions = {}): AsyncGenerator<ExecChunk, void, undefined> {
    return execChunks(this.stream(cmd, options));
  }

  /** Starts a command without waiting for it. */
  async start(cmd: Command, options: StartOptions = {}): Promise<Exec> {
    const body = await this.#transport.json<ExecInfoBody>(this.#execCall("/execs", cmd, options));
    return this.getExec(body.exec_id);
  }

  /** The events of this session, as in `client.events`. */
  events(options: SessionEventOptions = {}): AsyncGenerator<SandboxEvent, void, undefined> {
    return followEvents(this.#transport, `${this.#base}/events`, options);
  }

  /** The command with an id. Sends no request. */
  getExec(execId: string): Exec {
    return new Exec(this.#transport, this.id, execId);
  }

  /** All commands of the session, newest first, loading pages as needed. */
  async *execs(options: CallOptions = {}): AsyncGenerator<ExecInfo, void, undefined> {
    let cursor: string | undefined;
    do {
      const page: ExecPageBody = await this.#transport.json<ExecPageBody>({
        method: "GET",
        path: `${this.#base}/execs`,
        query: { cursor },
        signal: options.signal,
      });
      yield* page.execs.map(toExecInfo);
      cursor = page.next_cursor;
    } while (cursor !== undefined);
  }

  /** The shell with a name. Its first command creates it; this sends no request. */
  shell(name: string): Shell {
    return new Shell(this.#transport, this, name);
  }

  /** The existing shells, in order of creation. */
  async shells(options: CallOptions = {}): Promise<ShellInfo[]> {
    return toShellInfos(await this.#get<ShellListBody>("/shells", options));
  }

  /** Opens a terminal, or reattaches to one. */
  pty(options: PtyOptions = {}): Promise<Pty> {
    return openPty(this.#transport, this.id, options);
  }

  /** The listening TCP ports inside it. */
  async ports(options: CallOptions = {}): Promise<PortInfo[]> {
    return (await this.#get<PortListBody>("/ports", options)).ports;
  }

  /**
   * A URL that opens a port in a browser without the key. It is valid for this port only, until it
   * expires or the session ends.
   */
  async url(port: number, options: UrlOptions = {}): Promise<string> {
    const { expiresInSeconds, signal } = camelOptions(options);
    const json = { expires_in_seconds: expiresInSeconds };
    const call = { ...this.#post(`/ports/${port}/url`, json, { signal }), repeatable: true };
    return (await this.#transport.json<PreviewUrlBody>(call)).url;
  }

  /** Connects to a port inside it. Fails with `PORT_REFUSED` if nothing listens there. */
  connect(port: number, options: CallOptions = {}): Promise<PortConnection> {
    return connectToPort(this.#transport, this.id, port, options);
  }

  /** Changes which hosts it may connect to; connections that are no longer allowed are cut. */
  setNetwork(network: NetworkRequest, options: CallOptions = {}): Promise<SessionInfo> {
    return this.#update({
      method: "PUT",
      path: `${this.#base}/network`,
      json: { network: toNetwork(network) },
      signal: options.signal,
    });
  }

  /** Its outbound connections, including refused ones, oldest first. */
  async egress(options: EgressOptions = {}): Promise<EgressPage> {
    const { cursor, limit, signal } = options;
    return toEgressPage(
      await this.#transport.json<EgressPageBody>({
        method: "GET",
        path: `${this.#base}/egress`,
        query: { cursor: cursor?.toString(), limit: limit?.toString() },
        signal,
      }),
    );
  }

  /** Its outbound connections as they end, starting with those already recorded. */
  followEgress(
    options: Pick<EgressOptions, "cursor" | "signal"> = {},
  ): AsyncGenerator<EgressRecord, void, undefined> {
    return followEgress(this.#transport, this.#base, options);
  }

  /** Writes a file; the same as `files.write`. */
  write(path: SandboxPath, content: FileSource, options?: WriteFileOptions): Promise<WrittenFile> {
    return this.files.write(path, content, options);
  }

  /** A file's bytes; the same as `files.read`. */
  read(path: SandboxPath, options?: ReadFileOptions): Promise<Uint8Array> {
    return this.files.read(path, options);
  }

  /** A file's text; the same as `files.readText`. */
  readText(path: SandboxPath, options?: ReadFileOptions): Promise<string> {
    return this.files.readText(path, options);
  }

  /** Writes a text; the same as `files.write`. */
  writeText(path: SandboxPath, text: string, options?: WriteFileOptions): Promise<WrittenFile> {
    return this.files.write(path, text, options);
  }

  /** Freezes all processes of the session, until `resume`. */
  pause(options: CallOptions = {}): Promise<SessionInfo> {
    return this.#update(this.#post("/pause", {}, options));
  }

  /** Resumes all processes of the session. */
  resume(options: CallOptions = {}): Promise<SessionInfo> {
    return this.#update(this.#post("/resume", {}, options));
  }

  /** Restarts the time to live. Each use of the session does the same. */
  async renew(options: RenewOptions = {}): Promise<SessionInfo> {
    const { ttlSeconds, signal } = camelOptions(options);
    return this.#update(this.#post("/renew", { ttl_seconds: ttlSeconds }, { signal }));
  }

  /**
   * Creates an image from the session's root. Requires the profile `root`; `/workspace` and the
   * home directory are not included.
   */
  async commit(reference: string, options: CallOptions = {}): Promise<ImageInfo> {
    const call = this.#post("/commit", { reference }, { signal: options.signal });
    return toImageInfo(await this.#transport.json<ImageBody>({ ...call, waits: true }));
  }

  /** Its current resource usage. */
  async stats(options: CallOptions = {}): Promise<SessionStats> {
    return toSessionStats(await this.#get<StatsBody>("/stats", options));
  }

  /** Its isolation, as measured inside it. */
  async isolation(options: CallOptions = {}): Promise<IsolationReport> {
    return toIsolationReport(await this.#get<IsolationBody>("/isolation", options));
  }

  /** Destroys the session with all its processes and files. Idempotent. */
  async destroy(options: CallOptions = {}): Promise<void> {
    await this.#transport.json({
      method: "DELETE",
      path: this.#base,
      signal: options.signal,
    });
  }

  /** Destroys it. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.destroy();
  }

  #execCall(suffix: string, cmd: Command, given: StartOptions): Call {
    const options = camelOptions(given);
    return {
      method: "POST",
      path: `${this.#base}${suffix}`,
      json: toExecRequest(cmd, options),
      idempotencyKey: options.idempotencyKey ?? crypto.randomUUID(),
      signal: options.signal,
    };
  }

  #get<Body>(suffix: string, { signal }: CallOptions): Promise<Body> {
    return this.#transport.json<Body>({ method: "GET", path: `${this.#base}${suffix}`, signal });
  }

  #post(suffix: string, json: unknown, { signal }: CallOptions): Call {
    return { method: "POST", path: `${this.#base}${suffix}`, json, signal };
  }

  async #update(call: Call): Promise<SessionInfo> {
    return this.learn(toSessionInfo(await this.#transport.json<SessionBody>(call)));
  }
}
