/**
 * How long a daemon's main thread slept anywhere but in its event loop: on a disk, a lock or a
 * child that it waits for. Time without a processor does not count, whether it is this thread that has
 * none or another one that it waits for, so a busy machine adds nothing.
 */
import { once } from "node:events";
import { Worker } from "node:worker_threads";

export class BlockedTime implements AsyncDisposable {
  readonly #worker: Worker;
  readonly #microseconds = new BigInt64Array(new SharedArrayBuffer(8));

  private constructor(pid: number) {
    // A separate thread sees what happens while the test's own is busy with its attack.
    this.#worker = new Worker(new URL("blocked-time-sampler.ts", import.meta.url), {
      workerData: { pid, microseconds: this.#microseconds },
    });
    this.#worker.unref();
  }

  /** The process must be idle at first, which shows where its event loop waits. */
  static async watch(pid: number): Promise<BlockedTime> {
    const watching = new BlockedTime(pid);
    await once(watching.#worker, "message");
    return watching;
  }

  /** Since the beginning. */
  get ms(): number {
    return Number(Atomics.load(this.#microseconds, 0)) / 1000;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#worker.terminate();
  }
}
