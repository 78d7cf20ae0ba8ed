/** The inside of a fake sandbox: its shells, processes, files and ports. */
import { SandboxError } from "@sandkasten/protocol";
import type {
  ExecCommand,
  ExecOptions,
  NetworkHandler,
  ShellInfo,
  TerminalSize,
} from "../ports.ts";
import { parseCommandLine, SyntaxProblem } from "./command-line.ts";
import type { AndList, SimpleCommand } from "./command-line.ts";
import { FakeExec } from "./fake-exec.ts";
import { runProgram } from "./fake-programs.ts";
import type { MemoryDisk } from "./memory-disk.ts";
import { MemoryFiles } from "./memory-files.ts";

const FAKE_WORKSPACE = "/workspace";

const MAX_SHELLS = 16;

interface ShellState {
  cwd: string;
  readonly env: Map<string, string>;
  /** The next command runs in a new shell. */
  restarted: boolean;
  exitCode?: number;
}

/** A named shell, and the commands waiting for it. */
interface NamedShell {
  state: ShellState;
  terminal: TerminalSize | undefined;
  queue: Promise<void>;
  readonly execs: FakeExec[];
}

export class FakeSandbox {
  readonly files: MemoryFiles;
  readonly execs = new Map<string, FakeExec>();
  readonly ports = new Set<number>();
  /** The gateway that was offered; tests play the programs that use it. */
  network: NetworkHandler | undefined;
  readonly startedAtMs = performance.now();
  /** Fires when the sandbox is destroyed. */
  readonly gone = new AbortController();
  readonly #env: ReadonlyMap<string, string>;
  readonly #shells = new Map<string, NamedShell>();
  #paused: PromiseWithResolvers<void> | undefined;
  /** The token of the daemon that last took it over. */
  #takenOverWith = -1;
  /** The channels that were opened with a fencing token. */
  readonly #fenced = new Map<{ close(): void }, number>();

  constructor(env: Readonly<Record<string, string>> = {}, workspaceDisk?: MemoryDisk) {
    this.files = new MemoryFiles(FAKE_WORKSPACE, workspaceDisk);
    this.#env = new Map(Object.entries(env));
    this.#shell("default");
  }

  get paused(): boolean {
    return this.#paused !== undefined;
  }

  pause(): void {
    this.#paused ??= Promise.withResolvers();
  }

  resume(): void {
    this.#paused?.resolve();
    this.#paused = undefined;
  }

  /** Closes the channels of daemons that another one has replaced. */
  admit(channel: { close(): void }, fence: number): void {
    this.#fenced.set(channel, fence);
    const greatest = Math.max(...this.#fenced.values());
    for (const [other, token] of this.#fenced) if (token < greatest) other.close();
  }

  takeOver(fence: number): void {
    this.requireOwner("", fence);
    this.#takenOverWith = fence;
  }

  requireOwner(id: string, fence = this.#takenOverWith): void {
    if (fence < this.#takenOverWith)
      throw new SandboxError("SANDBOX_UNREACHABLE", `the sandbox ${id} was taken over`, {
        details: { reason: "moved" },
      });
  }

  /** Every request waits here: a paused sandbox does not respond, a destroyed one refuses. */
  async awake(): Promise<void> {
    await this.#paused?.promise;
    if (this.gone.signal.aborted)
      throw new SandboxError("SANDBOX_UNREACHABLE", "the sandbox is gone");
  }

  destroy(): void {
    this.gone.abort();
    this.resume();
    for (const exec of this.execs.values()) exec.kill("killed", 9);
  }

  start(command: ExecCommand, options: ExecOptions): FakeExec {
    const known = this.execs.get(options.execId);
    if (known !== undefined) return known;
    const shell = command.kind === "shell" ? this.#shell(command.shell ?? "default") : undefined;
    if (shell !== undefined && command.pty !== undefined) shell.terminal = command.pty;
    const exec = new FakeExec(command.kind, options, command.pty ?? shell?.terminal);
    if (command.kind === "process") void this.#runProcess(exec, command.argv);
    else if (shell !== undefined) {
      shell.execs.push(exec);
      shell.queue = shell.queue.then(() =>
        this.#runInShell(shell, exec, Buffer.from(command.text).toString()),
      );
    }
    this.execs.set(options.execId, exec);
    return exec;
  }

  shells(): ShellInfo[] {
    return [...this.#shells].map(([name, { state, execs }]) => {
      const running = execs.find((exec) => exec.state === "running");
      return {
        name,
        kind: "sh",
        cwd: state.cwd,
        busy: running !== undefined,
        ...(running !== undefined && { execId: running.options.execId }),
      };
    });
  }

  closeShell(name: string): void {
    const shell = this.#shells.get(name);
    if (shell === undefined) throw new SandboxError("SHELL_NOT_FOUND", `no shell is named ${name}`);
    this.#shells.delete(name);
    for (const exec of shell.execs) if (exec.state !== "done") this.cancel(exec);
  }

  cancel(exec: FakeExec): void {
    const waits = exec.state === "queued";
    exec.kill("cancelled");
    if (waits) exec.finish(0, { shellRestarted: false });
  }

  #shell(name: string): NamedShell {
    const known = this.#shells.get(name);
    if (known !== undefined) return known;
    if (this.#shells.size >= MAX_SHELLS)
      throw new SandboxError("QUOTA_EXCEEDED", "the sandbox has too many shells already");
    const state = { cwd: FAKE_WORKSPACE, env: new Map(this.#env), restarted: false };
    const shell = { state, terminal: undefined, queue: Promise.resolve(), execs: [] };
    this.#shells.set(name, shell);
    return shell;
  }

  async #runProcess(exec: FakeExec, argv: readonly string[]): Promise<void> {
    const env = new Map([...this.#env, ...Object.entries(exec.options.env ?? {})]);
    const cwd = this.files.resolve(exec.options.cwd ?? FAKE_WORKSPACE);
    const [program, flag, script] = argv;
    const exitCode = await this.#timed(exec, () =>
      program === "sh" && flag === "-c" && script !== undefined
        ? this.#script(exec, script, { cwd, env, restarted: false })
        : this.#program(exec, { words: argv, toStderr: false }, cwd, env),
    );
    exec.finish(exitCode, { shellRestarted: false });
  }

  async #runInShell(named: NamedShell, exec: FakeExec, text: string): Promise<void> {
    if (exec.state === "done") return;
    const shell = named.state;
    const shellRestarted = shell.restarted;
    shell.restarted = false;
    const before = { cwd: shell.cwd, env: new Map(shell.env) };
    for (const [name, value] of Object.entries(exec.options.env ?? {})) shell.env.set(name, value);
    if (exec.options.cwd !== undefined) shell.cwd = this.files.resolve(exec.options.cwd);
    const exitCode = exec.killed.signal.aborted
      ? 0
      : await this.#timed(exec, () => this.#script(exec, text, shell));
    if (exec.options.cwd !== undefined) shell.cwd = before.cwd;
    for (const name of Object.keys(exec.options.env ?? {})) {
      const value = before.env.get(name);
      if (value === undefined) shell.env.delete(name);
      else shell.env.set(name, value);
    }
    if (shell.exitCode !== undefined)
      named.state = { cwd: shell.cwd, env: new Map(this.#env), restarted: true };
    exec.finish(exitCode, {
      cwd: shell.cwd,
      shellRestarted: shellRestarted || shell.exitCode !== undefined,
    });
  }

  /** Runs with the command's timeouts; a kill counts as an end. */
  async #timed(exec: FakeExec, run: () => Promise<number>): Promise<number> {
    exec.start();
    const { timeoutMs = 0, idleTimeoutMs = 0 } = exec.options;
    const timer = timeoutMs > 0 ? setTimeout(() => exec.kill("timeout"), timeoutMs) : undefined;
    const idle =
      idleTimeoutMs > 0 ? setTimeout(() => exec.kill("idle_timeout"), idleTimeoutMs) : undefined;
    try {
      return await run();
    } catch (error) {
      if (exec.killed.signal.aborted) return 0;
      throw error;
    } finally {
      clearTimeout(timer);
      clearTimeout(idle);
    }
  }

  async #script(exec: FakeExec, text: string, shell: ShellState): Promise<number> {
    let exitCode = 0;
    try {
      for (const list of parseCommandLine(text, (name) => shell.env.get(name) ?? "")) {
        exec.killed.signal.throwIfAborted();
        if (list.background) this.#background(exec, list, shell);
        else exitCode = await this.#andList(exec, list, shell);
        if (shell.exitCode !== undefined) return shell.exitCode;
      }
    } catch (error) {
      if (!(error instanceof SyntaxProblem)) throw error;
      exec.write(2, Buffer.from(`${error.message}\n`));
      return 2;
    }
    return exitCode;
  }

  #background(exec: FakeExec, list: AndList, shell: ShellState): void {
    exec.lingering++;
    const copy = { cwd: shell.cwd, env: new Map(shell.env), restarted: false };
    void this.#andList(exec, list, copy)
      .catch(() => 137)
      .then(() => {
        exec.lingering--;
        exec.change();
      });
  }

  async #andList(exec: FakeExec, list: AndList, shell: ShellState): Promise<number> {
    let exitCode = 0;
    for (const prepare of list.commands) {
      exitCode = await this.#simple(exec, prepare(), shell);
      if (exitCode !== 0 || shell.exitCode !== undefined) break;
    }
    return exitCode;
  }

  async #simple(exec: FakeExec, command: SimpleCommand, shell: ShellState): Promise<number> {
    const [name, argument = ""] = command.words;
    switch (name) {
      case undefined:
        return 0;
      case "cd": {
        const path = this.files.resolve(argument, shell.cwd);
        if (this.files.find(path)?.type !== "dir") {
          exec.write(2, Buffer.from(`cd: ${argument}: No such file or directory\n`));
          return 1;
        }
        shell.cwd = path;
        return 0;
      }
      case "export": {
        const at = argument.indexOf("=");
        shell.env.set(argument.slice(0, at), argument.slice(at + 1));
        return 0;
      }
      case "exit":
        shell.exitCode = Number(argument);
        return shell.exitCode;
      default:
        return this.#program(exec, command, shell.cwd, shell.env);
    }
  }

  async #program(
    exec: FakeExec,
    command: SimpleCommand,
    cwd: string,
    env: ReadonlyMap<string, string>,
  ): Promise<number> {
    const captured: Uint8Array[] = [];
    const exitCode = await runProgram(command.words, {
      files: this.files,
      cwd,
      env,
      terminal: () => exec.terminal,
      killed: exec.killed.signal,
      stdin: exec.input(),
      write: (fd, bytes) => {
        if (fd === 1 && command.redirect !== undefined) captured.push(bytes);
        else exec.write(command.toStderr ? 2 : fd, bytes);
      },
      serveEcho: (port, until) => {
        this.ports.add(port);
        until.addEventListener("abort", () => this.ports.delete(port), { once: true });
      },
    });
    if (exitCode === undefined) {
      exec.write(2, Buffer.from(`${command.words[0] ?? ""}: command not found\n`));
      return 127;
    }
    if (command.redirect !== undefined)
      this.#redirect(command.redirect, Buffer.concat(captured), cwd);
    return exitCode;
  }

  #redirect(
    { path, append }: NonNullable<SimpleCommand["redirect"]>,
    bytes: Buffer,
    cwd: string,
  ): void {
    const target = this.files.resolve(path, cwd);
    const before = append ? (this.files.find(target)?.bytes ?? Buffer.alloc(0)) : Buffer.alloc(0);
    this.files.put(
      target,
      { bytes: Buffer.concat([before, bytes]) },
      { overwrite: true, parents: false },
    );
  }
}
