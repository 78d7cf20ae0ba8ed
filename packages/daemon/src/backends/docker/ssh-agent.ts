/** Tunnels HTTP to an engine on another machine through `ssh`, as Docker's own client does. */
import { spawn } from "node:child_process";
import { Agent } from "node:http";
import type { ClientRequestArgs } from "node:http";
import { Duplex } from "node:stream";

const CONNECT_TIMEOUT_SECONDS = 10;
/** A dead machine is detected after three intervals without a response. */
const ALIVE_INTERVAL_SECONDS = 15;
/** Servers refuse connections while many others have not logged in yet: OpenSSH from ten on. */
const MAX_LOGGING_IN = 4;
/** Printed by ssh in verbose mode. */
const LOGGED_IN = /^Authenticated to /mu;
/** The end of ssh's output says why it failed. */
const KEPT_WORDS = 500;

type Connected = (error: Error | null, stream: Duplex) => void;

/**
 * SECURITY: uses the machine's own `ssh`, with its known hosts, keys and agent. A library that
 * accepts any host key would hand the engine, and with it root, to an attacker. In batch mode ssh
 * never prompts, and refuses an unknown host. Guarded by engine-connection.test.ts.
 */
export class SshAgent extends Agent {
  readonly #argv: readonly [string, ...string[]];
  readonly #waiting: (() => void)[] = [];
  #loggingIn = 0;

  constructor(url: URL, program: string) {
    // Connecting is slow, so the connection is kept for the next request.
    super({ keepAlive: true, maxFreeSockets: 4 });
    this.#argv = [
      program,
      "-o",
      "BatchMode=yes",
      "-o",
      `ConnectTimeout=${CONNECT_TIMEOUT_SECONDS}`,
      "-o",
      `ServerAliveInterval=${ALIVE_INTERVAL_SECONDS}`,
      "-o",
      "LogLevel=VERBOSE",
      ...(url.username === "" ? [] : ["-l", decodeURIComponent(url.username)]),
      ...(url.port === "" ? [] : ["-p", url.port]),
      "--",
      url.hostname,
      "docker system dial-stdio",
    ];
  }

  override createConnection(_options: ClientRequestArgs, connected?: Connected): undefined {
    const connect = (): void => connected?.(null, this.#connect());
    if (this.#loggingIn < MAX_LOGGING_IN) connect();
    else this.#waiting.push(connect);
  }

  #connect(): Duplex {
    this.#loggingIn++;
    let isLoggedIn = false;
    const loggedIn = (): void => {
      if (isLoggedIn) return;
      isLoggedIn = true;
      this.#loggingIn--;
      this.#waiting.shift()?.();
    };
    const [program, ...args] = this.#argv;
    const child = spawn(program, args, { stdio: "pipe" });
    const stream = new ProcessStream(child.stdin, child.stdout);
    child.once("error", (error) => {
      loggedIn();
      stream.destroy(error);
    });
    stream.once("close", () => child.kill());
    let words = "";
    child.stderr.setEncoding("utf8").on("data", (text: string) => {
      words = (words + text).slice(-KEPT_WORDS);
      if (LOGGED_IN.test(words)) loggedIn();
    });
    // A connection that ssh shares with an earlier one needs no login.
    child.stdout.once("data", loggedIn);
    child.once("close", (code) => {
      loggedIn();
      if (code === 0) stream.push(null);
      else stream.destroy(new SshFailure(code, words.trim()));
    });
    return stream;
  }
}

class SshFailure extends Error {
  readonly code = "SSH_FAILED";

  constructor(exitCode: number | null, words: string) {
    super(words === "" ? `ssh ended with ${String(exitCode)}` : words);
  }
}

/** The two pipes of a process, with what HTTP expects of a socket. */
class ProcessStream extends Duplex {
  readonly #input: NodeJS.WritableStream;
  readonly #output: NodeJS.ReadableStream;

  constructor(input: NodeJS.WritableStream, output: NodeJS.ReadableStream) {
    super({ allowHalfOpen: true });
    this.#input = input;
    this.#output = output;
    output.on("data", (bytes: Buffer) => {
      if (!this.push(bytes)) output.pause();
    });
    output.on("error", (error) => this.destroy(error));
    // Its exit explains why it accepts no more input.
    input.on("error", () => undefined);
  }

  setTimeout(): this {
    return this;
  }

  setNoDelay(): this {
    return this;
  }

  setKeepAlive(): this {
    return this;
  }

  ref(): this {
    return this;
  }

  unref(): this {
    return this;
  }

  override _read(): void {
    this.#output.resume();
  }

  override _write(bytes: Buffer, _encoding: string, done: () => void): void {
    if (this.#input.write(bytes)) done();
    else this.#input.once("drain", done);
  }

  override _final(done: () => void): void {
    this.#input.end(done);
  }
}
