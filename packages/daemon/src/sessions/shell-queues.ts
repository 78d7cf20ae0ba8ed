/** Runs the commands of one shell one after the other; different shells do not wait for each other. */
import { FifoMutex } from "./fifo-mutex.ts";

/** The shell of commands that do not name one. */
export const DEFAULT_SHELL = "default";

export class ShellQueues {
  readonly #queues = new Map<string, FifoMutex>();

  /** Whether entering now succeeds at once. */
  isFree(shell: string): boolean {
    return this.#queues.get(shell)?.free ?? true;
  }

  /**
   * Resolves with a function that admits the next command. Rejects with the signal's reason if the
   * command is cancelled before.
   */
  async enter(shell: string, command: { readonly cancelled: AbortSignal }): Promise<() => void> {
    const queue = this.#queues.get(shell) ?? new FifoMutex();
    this.#queues.set(shell, queue);
    try {
      const leave = await queue.enter(queue.free ? undefined : command.cancelled);
      return () => {
        leave();
        this.#forgetIfFree(shell, queue);
      };
    } catch (error) {
      this.#forgetIfFree(shell, queue);
      throw error;
    }
  }

  /** Clients choose the names, and may use any number of them. */
  #forgetIfFree(shell: string, queue: FifoMutex): void {
    if (queue.free && this.#queues.get(shell) === queue) this.#queues.delete(shell);
  }
}
