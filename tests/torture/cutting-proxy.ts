/** A proxy for a runner's socket that cuts connections repeatedly, at points chosen by a seed. */
import { mkdtemp, rm } from "node:fs/promises";
import { connect, createServer } from "node:net";
import type { Server, Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";

export interface Cutting {
  readonly cuts: number;
  /** The average number of bytes before a cut; the maximum is twice as many. */
  readonly meanBytes: number;
  readonly random: () => number;
}

export class CuttingProxy implements AsyncDisposable {
  readonly path: string;
  readonly #directory: string;
  readonly #target: string;
  readonly #cutting: Cutting;
  readonly #server: Server;
  readonly #open = new Set<Socket>();
  #cuts = 0;
  #untilCut: number;

  private constructor(directory: string, target: string, cutting: Cutting) {
    this.#directory = directory;
    this.path = join(directory, "proxy.sock");
    this.#target = target;
    this.#cutting = cutting;
    this.#untilCut = this.#nextCut();
    this.#server = createServer((client) => this.#serve(client));
  }

  static async start(target: string, cutting: Cutting): Promise<CuttingProxy> {
    const directory = await mkdtemp(join(tmpdir(), "sandkasten-proxy-"));
    const proxy = new CuttingProxy(directory, target, cutting);
    await new Promise<void>((resolve) => void proxy.#server.listen(proxy.path, resolve));
    return proxy;
  }

  get cuts(): number {
    return this.#cuts;
  }

  #nextCut(): number {
    return Math.ceil(this.#cutting.random() * 2 * this.#cutting.meanBytes);
  }

  #serve(client: Socket): void {
    const runner = connect({ path: this.#target });
    const both = [client, runner];
    const end = (): void => {
      for (const socket of both) {
        socket.destroy();
        this.#open.delete(socket);
      }
    };
    for (const socket of both) {
      this.#open.add(socket);
      socket.on("error", end);
      socket.on("close", end);
    }
    const forward = (from: Socket, to: Socket): void => {
      from.on("data", (bytes) => {
        const whole = this.#count(bytes.length);
        // The last bytes before a cut may be any part of a frame.
        to.write(bytes.subarray(0, whole ?? bytes.length), () => {
          if (whole !== undefined) end();
        });
        if (whole !== undefined) from.pause();
        else if (to.writableNeedDrain) {
          from.pause();
          to.once("drain", () => from.resume());
        }
      });
    };
    forward(client, runner);
    forward(runner, client);
  }

  /** How many of these bytes still get through; undefined if all do. */
  #count(bytes: number): number | undefined {
    if (this.#cuts === this.#cutting.cuts) return undefined;
    if (bytes < this.#untilCut) {
      this.#untilCut -= bytes;
      return undefined;
    }
    const passing = this.#untilCut;
    this.#cuts++;
    this.#untilCut = this.#nextCut();
    return passing;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const socket of this.#open) socket.destroy();
    await new Promise((resolve) => void this.#server.close(resolve));
    await rm(this.#directory, { recursive: true, force: true });
  }
}
