/** Carries HTTP to an engine on another machine through `ssh`, as Docker's own client does. */
import { spawn } from "node:child_process";
import { Agent } from "node:http";
import type { ClientRequestArgs } from "node:http";
import { Duplex } from "node:stream";

const CONNECT_TIMEOUT_SECONDS = 10;

type Connected = (error: Error | null, stream: Duplex) => void;

/**
 * SECURITY: the machine's own `ssh`, with its known hosts, keys and agent. A library that takes
 * whatever key it is shown would hand the engine, and with it root, to whoever answers. In batch mode
 * it never asks, and an unknown host is refused. Guarded by engine-connection.test.ts.
 */
export class SshAgent extends Agent {
  readonly #argv: readonly [string, ...string[]];

  constructor(url: URL, program: string) {
    // A connection takes long to make, so it is kept for the next request.
    super({ keepAlive: true, maxFreeSockets: 4 });
    this.#argv = [
      program,
      "-o",
      "BatchMode=yes",
      "-o",
      `ConnectTimeout=${CONNECT_TIMEOUT_SECONDS}`,
      ...(url.username === "" ? [] : ["-l", decodeURIComponent(url.username)]),
      ...(url.port === "" ? [] : ["-p", url.port]),
      "--",
      url.hostname,
      "docker system dial-stdio",
    ];
  }

  override createConnection(_options: ClientRequestArgs, connected?: Connected): Duplex {
    const [program, ...args] = this.#argv;
    const child = spawn(program, args, { stdio: ["pipe", "pipe", "ignore"] });
    const stream = new ProcessStream(child.stdin, child.stdout);
    child.once("error", (error) => stream.destroy(error));
    stream.once("close", () => child.kill());
    connected?.(null, stream);
    return stream;
  }
}

/** The two pipes of a process, with what HTTP expects of a socket. */
class ProcessStream extends Duplex {
  readonly #input: NodeJS.WritableStream;
  readonly #output: NodeJS.ReadableStream;
  #ended = false;

  constructor(input: NodeJS.WritableStream, output: NodeJS.ReadableStream) {
    super({ allowHalfOpen: true });
    this.#input = input;
    this.#output = output;
    output.on("data", (bytes: Buffer) => {
      if (!this.push(bytes)) output.pause();
    });
    output.once("end", () => {
      this.#ended = true;
      this.push(null);
    });
    output.once("close", () => {
      if (!this.#ended) this.destroy();
    });
    for (const pipe of [input, output]) pipe.on("error", (error) => this.destroy(error));
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
