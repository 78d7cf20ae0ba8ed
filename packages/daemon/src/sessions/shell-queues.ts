/** Lets commands of one shell in one after the other; different shells do not wait for each other. */
import { FifoMutex } from "./fifo-mutex.ts";

/** The shell of commands that name none. */
export const DEFAULT_SHELL = "default";

export class ShellQueues {
  readonly #queues = new Map<string, FifoMutex>();

  /** Whether whoever comes now gets in at once. */
  isFree(shell: string): boolean {
    return this.#queues.get(shell)?.free ?? true;
  }

  /** Resolves with a function that lets the next one in. Rejects with the signal's reason when given up before. */
  async enter(shell: string, signal: AbortSignal): Promise<() => void> {
    const queue = this.#queues.get(shell) ?? new FifoMutex();
    this.#queues.set(shell, queue);
    try {
      const leave = await queue.enter(signal);
      return () => {
        leave();
        this.#forgetIfFree(shell, queue);
      };
    } catch (error) {
      this.#forgetIfFree(shell, queue);
      throw error;
    }
  }

  /** Names are the clients' to choose, and any number of them. */
  #forgetIfFree(shell: string, queue: FifoMutex): void {
    if (queue.free && this.#queues.get(shell) === queue) this.#queues.delete(shell);
  }
}
