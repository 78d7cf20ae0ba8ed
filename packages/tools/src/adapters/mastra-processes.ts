/** Mastra's process manager on a session: a process is a command, and its pid the command's id. */
import {
  type CommandResult,
  ProcessHandle,
  type ProcessInfo,
  SandboxProcessManager,
  type SpawnProcessOptions,
} from "@mastra/core/workspace";
import { type Exec, type ExecInfo, SandboxError, type Session } from "@sandkasten/sdk";
import { exitCodeOf, freshCommand } from "./fresh-command.ts";

export class ExecProcessManager extends SandboxProcessManager {
  readonly #session: () => Session;

  constructor(session: () => Session) {
    super();
    this.#session = session;
  }

  override async spawn(command: string, options: SpawnProcessOptions = {}): Promise<ProcessHandle> {
    const { cwd = this.sandbox.workingDirectory, env, timeout: timeoutMs } = options;
    const exec = await this.#session().start(command, {
      ...freshCommand({ cwd, env, timeoutMs, signal: options.abortSignal }),
      stdinOpen: options.stdinMode !== "ignore",
    });
    return new ExecHandle(exec, options);
  }

  /** All commands of the session, including those that another process started. */
  override async list(): Promise<ProcessInfo[]> {
    const execs = await Array.fromAsync(this.#session().execs());
    return execs
      .filter(({ execId }) => !this._dismissed.has(execId))
      .map(({ execId, cmd, status, exitCode }) => ({
        pid: execId,
        command: typeof cmd === "string" ? cmd : cmd.join(" "),
        running: status !== "done",
        ...(exitCode !== null && { exitCode }),
      }));
  }

  /** Reconnects to a process that this or another process started, with all of its output. */
  override async get(pid: string): Promise<ProcessHandle | undefined> {
    const tracked = this._tracked.get(pid);
    if (tracked !== undefined) return tracked;
    const exec = this.#session().getExec(pid);
    try {
      await exec.info();
    } catch (error) {
      if (error instanceof SandboxError && error.code === "EXEC_NOT_FOUND") return undefined;
      throw error;
    }
    return new ExecHandle(exec);
  }
}

class ExecHandle extends ProcessHandle {
  readonly pid: string;
  readonly #exec: Exec;
  readonly #ended: Promise<ExecInfo>;
  #info: ExecInfo | undefined;

  constructor(exec: Exec, options: SpawnProcessOptions = {}) {
    super(options);
    this.pid = exec.id;
    this.#exec = exec;
    this.#ended = this.#follow();
    // The caller that waits gets the failure.
    this.#ended.catch(() => undefined);
    const { abortSignal } = options;
    const kill = (): void => void this.kill().catch(() => undefined);
    if (abortSignal?.aborted === true) kill();
    abortSignal?.addEventListener("abort", kill, { once: true });
  }

  get exitCode(): number | undefined {
    return this.#info?.exitCode ?? undefined;
  }

  override async wait(): Promise<CommandResult> {
    const info = await this.#ended;
    const exitCode = exitCodeOf(info);
    return {
      success: exitCode === 0,
      exitCode,
      stdout: this.stdout,
      stderr: this.stderr,
      executionTimeMs: info.durationMs,
      timedOut: info.timedOut,
      killed: info.endReason === "killed" || info.endReason === "cancelled",
      stdoutTruncated: this.stdoutTruncated,
      stderrTruncated: this.stderrTruncated,
      stdoutDroppedBytes: this.stdoutDroppedBytes,
      stderrDroppedBytes: this.stderrDroppedBytes,
    };
  }

  override async kill(): Promise<boolean> {
    return (await this.#exec.signal("KILL", { tree: true })) > 0;
  }

  override async sendStdin(data: string): Promise<void> {
    await this.#exec.writeStdin(data);
  }

  override async closeStdin(): Promise<void> {
    await this.#exec.closeStdin();
  }

  async #follow(): Promise<ExecInfo> {
    const output = this.#exec.follow();
    for (;;) {
      const { done, value } = await output.next();
      if (done === true) {
        this.#info = value;
        return value;
      }
      if (value.text === "") continue;
      if (value.stream === "stdout") this.emitStdout(value.text);
      else this.emitStderr(value.text);
    }
  }
}
