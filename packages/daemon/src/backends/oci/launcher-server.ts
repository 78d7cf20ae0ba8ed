/**
 * Keeps one launcher running for all requests: starting a process blocks the daemon for several
 * milliseconds, asking a running one does not. It is started with the first request, and again with
 * the next one after it has died.
 */
import { spawn } from "node:child_process";
import type { ChildProcessWithoutNullStreams } from "node:child_process";
import { Socket } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { SandboxError } from "@sandkasten/protocol";
import { STANDARD_PATH } from "../../find-program.ts";

/** More than any valid answer; a launcher that sends more is not ours. */
const MAX_ANSWER_CHARACTERS = 4 * 1024 * 1024;
const MAX_COMPLAINT_CHARACTERS = 500;
/** How often a launcher with pending requests is checked. */
const LOOK_MS = 2_000;
/** After this many checks in a row without a message, including pings, it counts as frozen. */
const MAX_SILENT_LOOKS = 5;

/** Requests are numbered from 1. */
const PING_ID = "0";

interface Waiting {
  readonly command: string;
  readonly resolve: (answer: string) => void;
  readonly reject: (error: SandboxError) => void;
}

export class LauncherServer {
  /** By program: backends are dropped without cleanup, and each would leave a process behind. */
  static readonly #shared = new Map<string, LauncherServer>();
  readonly #program: string;
  #running: RunningServer | undefined;
  #pinging: Promise<string> | undefined;

  private constructor(program: string) {
    this.#program = program;
  }

  /** The instance shared by this process. */
  static of(program: string): LauncherServer {
    const found = LauncherServer.#shared.get(program);
    if (found !== undefined) return found;
    const server = new LauncherServer(program);
    LauncherServer.#shared.set(program, server);
    return server;
  }

  /** Whether it answers a ping in time. A launcher that stays unresponsive is replaced. */
  async responds(withinMs: number): Promise<boolean> {
    const late = new AbortController();
    const deadline = sleep(withinMs, false, { ref: false, signal: late.signal });
    try {
      this.#pinging ??= this.ask("ping").finally(() => (this.#pinging = undefined));
      return await Promise.race([this.#pinging.then(() => true), deadline]);
    } catch {
      return false;
    } finally {
      late.abort();
      deadline.catch(() => undefined);
    }
  }

  /** The launcher's answer, a JSON text. Requests may run concurrently. */
  ask(command: string, request?: unknown): Promise<string> {
    if (this.#running?.usable !== true) this.#running = new RunningServer(this.#program);
    return this.#running.ask(command, request);
  }
}

/** One launcher process, from start to end. It ends by itself when this process does. */
class RunningServer {
  readonly #program: string;
  readonly #process: ChildProcessWithoutNullStreams;
  readonly #waiting = new Map<string, Waiting>();
  #asked = 0;
  #unread = "";
  #complaint = "";
  #usable = true;
  /** Checks since the last message. Counted rather than timed: when this process stops, so do they. */
  #silentLooks = 0;
  #watch: NodeJS.Timeout | undefined;

  constructor(program: string) {
    this.#program = program;
    this.#process = spawn(program, ["serve"], {
      // SECURITY: the daemon's environment, with its keys, is not passed on (threat: leaked secrets
      // and descriptors).
      env: { PATH: STANDARD_PATH },
      cwd: "/",
      stdio: "pipe",
    });
    this.#process.on("error", (cause) => this.#fail(cause));
    this.#process.on("exit", () => (this.#usable = false));
    this.#process.on("close", (code, signal) => this.#end(signal ?? String(code)));
    const { stdin, stdout, stderr } = this.#process;
    // A failed write has no answer either; the process's end reports that.
    stdin.on("error", () => undefined);
    stdout.setEncoding("utf8").on("data", (text: string) => this.#hear(text));
    stderr.setEncoding("utf8").on("data", (text: string) => {
      this.#complaint = (this.#complaint + text).slice(-MAX_COMPLAINT_CHARACTERS);
    });
    this.#hold(false);
  }

  get usable(): boolean {
    return this.#usable;
  }

  ask(command: string, request: unknown): Promise<string> {
    return new Promise((resolve, reject) => {
      this.#asked += 1;
      const id = String(this.#asked);
      if (this.#waiting.size === 0) this.#hold(true);
      this.#watch ??= setInterval(() => this.#look(), LOOK_MS).unref();
      this.#waiting.set(id, { command, resolve, reject });
      this.#process.stdin.write(`${id} ${command} ${JSON.stringify(request) ?? ""}\n`);
    });
  }

  /** Keeps this process alive for the launcher only while requests are pending. */
  #hold(held: boolean): void {
    const { stdout, stderr } = this.#process;
    const streams = [stdout, stderr].filter((stream) => stream instanceof Socket);
    for (const handle of [this.#process, ...streams])
      if (held) handle.ref();
      else handle.unref();
  }

  /**
   * A healthy server answers pings at once, however long its requests take. A frozen one is killed,
   * which works even for a stopped process; its callers may retry.
   */
  #look(): void {
    if (this.#waiting.size === 0) {
      clearInterval(this.#watch);
      this.#watch = undefined;
      this.#silentLooks = 0;
      return;
    }
    this.#silentLooks += 1;
    if (this.#silentLooks > MAX_SILENT_LOOKS) this.#process.kill("SIGKILL");
    else this.#process.stdin.write(`${PING_ID} ping \n`);
  }

  #hear(text: string): void {
    this.#silentLooks = 0;
    const lines = (this.#unread + text).split("\n");
    this.#unread = lines.pop() ?? "";
    for (const line of lines) {
      const space = line.indexOf(" ");
      this.#settle(line.slice(0, space))?.resolve(line.slice(space + 1));
    }
    if (this.#unread.length > MAX_ANSWER_CHARACTERS) this.#process.kill("SIGKILL");
  }

  /** Removes and returns the caller waiting for an answer. */
  #settle(id: string): Waiting | undefined {
    const waiting = this.#waiting.get(id);
    if (this.#waiting.delete(id) && this.#waiting.size === 0) this.#hold(false);
    return waiting;
  }

  #fail(cause: Error): void {
    this.#usable = false;
    clearInterval(this.#watch);
    const message = `cannot run the launcher ${this.#program}`;
    for (const id of this.#waiting.keys())
      this.#settle(id)?.reject(new SandboxError("INTERNAL_ERROR", message, { cause }));
  }

  #end(how: string): void {
    this.#usable = false;
    clearInterval(this.#watch);
    for (const id of this.#waiting.keys()) {
      const waiting = this.#settle(id);
      waiting?.reject(noAnswer(waiting.command, how, this.#complaint));
    }
  }
}

/**
 * The error of a request whose launcher ended before it was done. Partial work is undone, or found
 * by the next request or the next start, so the same request may be sent again.
 */
export function noAnswer(command: string, how: string, said: string): SandboxError {
  return new SandboxError(
    "BACKEND_BUSY",
    `launcher ${command} ended with ${how} without an answer: ${said.slice(0, MAX_COMPLAINT_CHARACTERS)}; try again`,
  );
}
