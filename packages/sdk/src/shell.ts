/** A named shell of a session. */
import type { CallOptions } from "./call-options.ts";
import { camelKeys } from "./camel-keys.ts";
import type { Exec } from "./exec.ts";
import type { ExecStream } from "./exec-stream.ts";
import type { Command, ExecOptions, ExecResult, StartOptions } from "./exec-types.ts";
import { type WithSnakeNames, withSnakeNames } from "./snake-names.ts";
import { path, type Transport } from "./transport.ts";
import type { ShellListBody } from "./wire-bodies.ts";

interface ShellInfoFields {
  readonly name: string;
  readonly kind: "bash" | "sh";
  /** The working directory after the last command. */
  readonly cwd: string;
  readonly busy: boolean;
  /** The command that is running in the shell. */
  readonly execId?: string | undefined;
  /** How many commands wait for the shell. */
  readonly queued: number;
}

/** An existing shell. */
export type ShellInfo = WithSnakeNames<ShellInfoFields>;

/** The part of a session that its shells need. */
interface ShellSession {
  readonly id: string;
  exec(cmd: Command, options: ExecOptions): Promise<ExecResult>;
  stream(cmd: Command, options: ExecOptions): ExecStream;
  start(cmd: Command, options: StartOptions): Promise<Exec>;
}

/**
 * A shell of a session. It is created by its first command, and has its own directory, variables
 * and background jobs. Commands of different shells run concurrently.
 */
export class Shell implements AsyncDisposable {
  readonly name: string;
  readonly #session: ShellSession;
  readonly #transport: Transport;

  /** @internal */
  constructor(transport: Transport, session: ShellSession, name: string) {
    this.#transport = transport;
    this.#session = session;
    this.name = name;
  }

  /** Runs a command in it to its end; the same as `session.exec` with `shell`. */
  exec(cmd: Command, options: ExecOptions = {}): Promise<ExecResult> {
    return this.#session.exec(cmd, { ...options, shell: this.name });
  }

  /** Runs a command in it and streams its output. */
  stream(cmd: Command, options: ExecOptions = {}): ExecStream {
    return this.#session.stream(cmd, { ...options, shell: this.name });
  }

  /** Starts a command in it without waiting. */
  start(cmd: Command, options: StartOptions = {}): Promise<Exec> {
    return this.#session.start(cmd, { ...options, shell: this.name });
  }

  /** Closes it, and cancels its running and queued commands. Its background jobs continue. */
  async close(options: CallOptions = {}): Promise<void> {
    await this.#transport.json({
      method: "DELETE",
      path: path`/v1/sessions/${this.#session.id}/shells/${this.name}`,
      doneWhenRepeated: "SHELL_NOT_FOUND",
      signal: options.signal,
    });
  }

  /** Closes it. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }
}

export function toShellInfos(body: ShellListBody): ShellInfo[] {
  return body.shells.map((shell) => withSnakeNames(camelKeys(shell)));
}
