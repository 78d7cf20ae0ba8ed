/** A plain Node HTTP server in another process: it pipes requests to a file, and back. */
import { fork } from "node:child_process";
import type { ChildProcess } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { HttpClient } from "./http-client.ts";

export class PlainHttp implements AsyncDisposable {
  readonly client: HttpClient;
  readonly #child: ChildProcess;

  private constructor(child: ChildProcess, port: number) {
    this.#child = child;
    this.client = new HttpClient(`http://127.0.0.1:${port}`);
  }

  static async start(directory: string): Promise<PlainHttp> {
    const program = join(import.meta.dirname, "plain-http-process.ts");
    const child = fork(program, [join(directory, "plain-http.bin")], { detached: true });
    const ended = once(child, "exit").then(([code]) => {
      throw new Error(`the plain HTTP server ended with ${String(code)} before it listened`);
    });
    const [port] = (await Promise.race([once(child, "message"), ended])) as [number];
    ended.catch(() => undefined);
    return new PlainHttp(child, port);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.client.close();
    if (this.#child.exitCode !== null || this.#child.signalCode !== null) return;
    const ended = once(this.#child, "exit");
    this.#child.disconnect();
    await ended;
  }
}
