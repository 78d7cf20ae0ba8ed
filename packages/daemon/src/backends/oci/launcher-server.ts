/**
 * Keeps one launcher running for all requests: to start a process stops the daemon for several
 * milliseconds, to ask one that runs does not. It is started with the first request, and again with
 * the next one after it has died.
 */
import { spawn } from "node:child_process";
import type { ChildProcessWithoutNullStreams } from "node:child_process";
import { Socket } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { SandboxError } from "@sandkasten/protocol";
import { STANDARD_PATH } from "../../find-program.ts";

/** More than any answer has; a launcher that says more is not ours. */
const MAX_ANSWER_CHARACTERS = 4 * 1024 * 1024;
const MAX_COMPLAINT_CHARACTERS = 500;
/** How often a launcher that somebody waits for is looked at. */
const LOOK_MS = 2_000;
/** After so many looks in a row without a word from it, pings included, it counts as frozen. */
const MAX_SILENT_LOOKS = 5;

/** Requests have numbers from 1 on. */
const PING_ID = "0";

interface Waiting {
  readonly command: string;
  readonly resolve: (answer: string) => void;
  readonly reject: (error: SandboxError) => void;
}

export class LauncherServer {
  /** By program: backends are dropped without a word, and each would leave a process behind. */
  static readonly #shared = new Map<string, LauncherServer>();
  readonly #program: string;
  #running: RunningServer | undefined;
  #pinging: Promise<string> | undefined;

  private constructor(program: string) {
    this.#program = program;
  }

  /** The one that all of this process share. */
  static of(program: string): LauncherServer {
    const found = LauncherServer.#shared.get(program);
    if (found !== undefined) return found;
    const server = new LauncherServer(program);
    LauncherServer.#shared.set(program, server);
    return server;
  }

  /** Whether it answers a ping in time. One that does not is replaced when it stays so. */
  async answers(withinMs: number): Promise<boolean> {
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

  /** The launcher's answer, a JSON text. Any number of requests may be under way. */
  ask(command: string, request?: unknown): Promise<string> {
    if (this.#running?.usable !== true) this.#running = new RunningServer(this.#program);
    return this.#running.ask(command, request);
  }
}

/** One process, from its start to its end. It ends by itself when this process does. */
class RunningServer {
  readonly #program: string;
  readonly #process: ChildProcessWithoutNullStreams;
  readonly #waiting = new Map<string, Waiting>();
  #asked = 0;
  #unread = "";
  #complaint = "";
  #usable = true;
  /** Looks since the last word. Counted rather than timed: when this process stops, so do they. */
  #silentLooks = 0;
  #watch: NodeJS.Timeout | undefined;

  constructor(program: string) {
    this.#program = program;
    this.#process = spawn(program, ["serve"], {
      // SECURITY: the daemon's environment, with its keys, goes no further (threat: leaked secrets and
      // descriptors).
      env: { PATH: STANDARD_PATH },
      cwd: "/",
      stdio: "pipe",
    });
    this.#process.on("error", (cause) => this.#fail(cause));
    this.#process.on("exit", () => (this.#usable = false));
    this.#process.on("close", (code, signal) => this.#end(signal ?? String(code)));
    const { stdin, stdout, stderr } = this.#process;
    // What could not be written has no answer either; the end of the process says so.
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

  /** Whether this process goes on for the launcher's sake: only as long as somebody waits for it. */
  #hold(held: boolean): void {
    const { stdout, stderr } = this.#process;
    const streams = [stdout, stderr].filter((stream) => stream instanceof Socket);
    for (const handle of [this.#process, ...streams])
      if (held) handle.ref();
      else handle.unref();
  }

  /**
   * A healthy server answers pings at once, however long its requests take. One that is frozen is
   * killed, which even a stopped process cannot escape; whoever waits for it may try again.
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

  /** Who waits for an answer, and waits no longer. */
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
 * What became of a request whose launcher ended before it was done. What it had begun is taken down, or
 * found by the next request or the next start, so the same request may be sent again.
 */
export function noAnswer(command: string, how: string, said: string): SandboxError {
  return new SandboxError(
    "BACKEND_BUSY",
    `launcher ${command} ended with ${how} and no answer: ${said.slice(0, MAX_COMPLAINT_CHARACTERS)}; try again`,
  );
}
