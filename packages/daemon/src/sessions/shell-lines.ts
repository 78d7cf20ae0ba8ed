/** Lets commands of one shell in one after the other; different shells do not wait for each other. */
import { WaitingLine } from "./waiting-line.ts";

/** The shell of commands that name none. */
export const DEFAULT_SHELL = "default";

export class ShellLines {
  readonly #lines = new Map<string, WaitingLine>();

  /** Whether whoever comes now gets in at once. */
  isFree(shell: string): boolean {
    return this.#lines.get(shell)?.free ?? true;
  }

  /** Resolves with a function that lets the next one in. Rejects with the signal's reason when given up before. */
  async enter(shell: string, signal: AbortSignal): Promise<() => void> {
    const line = this.#lines.get(shell) ?? new WaitingLine();
    this.#lines.set(shell, line);
    try {
      const leave = await line.enter(signal);
      return () => {
        leave();
        this.#forgetIfFree(shell, line);
      };
    } catch (error) {
      this.#forgetIfFree(shell, line);
      throw error;
    }
  }

  /** Names are the clients' to choose, and any number of them. */
  #forgetIfFree(shell: string, line: WaitingLine): void {
    if (line.free && this.#lines.get(shell) === line) this.#lines.delete(shell);
  }
}
