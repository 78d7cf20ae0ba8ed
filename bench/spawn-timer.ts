/** A small C program that starts and times others, to exclude Node's own cost of spawning. */
import { execFile, spawn } from "node:child_process";
import type { ChildProcessByStdio } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { createInterface } from "node:readline";
import type { Readable, Writable } from "node:stream";
import { promisify } from "node:util";

const SOURCE = join(import.meta.dirname, "spawn-timer.c");

export class SpawnTimer implements AsyncDisposable {
  readonly #child: ChildProcessByStdio<Writable, Readable, null>;
  readonly #answers: AsyncIterator<string>;

  private constructor(child: ChildProcessByStdio<Writable, Readable, null>) {
    this.#child = child;
    this.#answers = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  }

  /** Compiles the program into `directory` and starts it. */
  static async start(directory: string): Promise<SpawnTimer> {
    const program = join(directory, "spawn-timer");
    await promisify(execFile)("cc", ["-O2", "-o", program, SOURCE]);
    // In a separate session: an interrupt at the terminal is for us, and we end it.
    const child = spawn(program, { stdio: ["pipe", "pipe", "inherit"], detached: true });
    await once(child, "spawn");
    return new SpawnTimer(child);
  }

  /** Fork, exec and wait of a command that must succeed, in microseconds. */
  async timeUs(argv: readonly string[]): Promise<number> {
    this.#child.stdin.write(`${argv.join("\t")}\n`);
    const answer = await this.#answers.next();
    const [elapsedUs, status] = answer.done === true ? [] : answer.value.split(" ").map(Number);
    if (elapsedUs === undefined || status !== 0)
      throw new Error(`${argv.join(" ")} failed with ${String(status ?? "the spawn timer gone")}`);
    return elapsedUs;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#child.exitCode !== null || this.#child.signalCode !== null) return;
    const ended = once(this.#child, "exit");
    this.#child.stdin.end();
    await ended;
  }
}
