/** A host with in-memory streams, for running the command line inside a test. */
import { PassThrough, Writable } from "node:stream";
import { readEnvironment } from "../environment.ts";
import type { EndSignal, Host, HostOutput } from "../host.ts";
import { runCli } from "../run-cli.ts";

export interface TestHostOptions {
  readonly env?: Readonly<Record<string, string>>;
  /** The piped input; none when absent. */
  readonly stdin?: string | Uint8Array | PassThrough;
  readonly cwd?: string;
  /** The output is a terminal of this width. */
  readonly columns?: number;
}

export interface TestRun {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
  readonly stdoutBytes: Buffer;
}

export class MemoryOutput extends Writable {
  readonly isTTY?: boolean;
  readonly columns?: number;
  readonly rows?: number;
  readonly #chunks: Buffer[] = [];
  readonly #onWrite: (all: () => string) => void;

  constructor(columns?: number, onWrite: (all: () => string) => void = () => {}) {
    super();
    this.#onWrite = onWrite;
    if (columns === undefined) return;
    this.isTTY = true;
    this.columns = columns;
    this.rows = 24;
  }

  override _write(chunk: Buffer, _: BufferEncoding, done: () => void): void {
    this.#chunks.push(chunk);
    this.#onWrite(() => this.bytes.toString());
    done();
  }

  get bytes(): Buffer {
    return Buffer.concat(this.#chunks);
  }
}

/** The command line, run in this process. Signals can be sent to it. */
export class TestCli {
  readonly done: Promise<TestRun>;
  readonly #signals: ((signal: EndSignal) => void)[] = [];
  readonly #seen = new Set<() => void>();
  readonly #stdout: MemoryOutput;
  readonly #stderr: MemoryOutput;
  exitedNow: number | undefined;

  constructor(args: readonly string[], options: TestHostOptions = {}) {
    const notify = (): void => {
      for (const look of this.#seen) look();
    };
    this.#stdout = new MemoryOutput(options.columns, notify);
    this.#stderr = new MemoryOutput(options.columns, notify);
    this.done = this.#run(args, options);
  }

  signal(signal: EndSignal): void {
    for (const listener of this.#signals) listener(signal);
  }

  /** Resolves with the match once the output contains it; rejects if the program ends without it. */
  async seen(pattern: RegExp, stream: "stdout" | "stderr" = "stdout"): Promise<RegExpExecArray> {
    const output = stream === "stdout" ? this.#stdout : this.#stderr;
    const found = Promise.withResolvers<RegExpExecArray>();
    const look = (): void => {
      const match = pattern.exec(output.bytes.toString());
      if (match !== null) found.resolve(match);
    };
    this.#seen.add(look);
    look();
    void this.done.then(({ code, stdout, stderr }) => {
      const shown = JSON.stringify({ code, stdout, stderr });
      found.reject(new Error(`it ended without showing ${String(pattern)}: ${shown}`));
    });
    return await found.promise.finally(() => this.#seen.delete(look));
  }

  async #run(args: readonly string[], options: TestHostOptions): Promise<TestRun> {
    const host: Host = {
      stdin: inputOf(options.stdin),
      stdinKind: options.stdin === undefined ? "none" : "piped",
      stdout: this.#stdout satisfies HostOutput,
      stderr: this.#stderr satisfies HostOutput,
      environment: readEnvironment(options.env ?? {}),
      workingDirectory: options.cwd ?? "/nonexistent",
      onSignal: (listener) => {
        this.#signals.push(listener);
      },
      exitNow: (code) => {
        this.exitedNow = code;
      },
    };
    const code = await runCli(args, host);
    const stdoutBytes = this.#stdout.bytes;
    return {
      code,
      stdout: stdoutBytes.toString(),
      stderr: this.#stderr.bytes.toString(),
      stdoutBytes,
    };
  }
}

/** Runs the command line to its end. */
export function runTestCli(args: readonly string[], options?: TestHostOptions): Promise<TestRun> {
  return new TestCli(args, options).done;
}

function inputOf(given: TestHostOptions["stdin"]): PassThrough {
  if (given instanceof PassThrough) return given;
  const stream = new PassThrough();
  stream.end(given ?? "");
  return stream;
}
