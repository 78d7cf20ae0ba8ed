/** Writes a response at the client's pace. */
import type { ServerResponse } from "node:http";
import { ObservedDeadline } from "../../../observed-deadline.ts";

/** The client disconnected, or read nothing for too long. */
export class ClientGone extends Error {
  override readonly name = "ClientGone";
}

export class ResponseWriter {
  readonly #response: ServerResponse;
  readonly #stallTimeoutMs: number;

  constructor(response: ServerResponse, stallTimeoutMs: number) {
    this.#response = response;
    this.#stallTimeoutMs = stallTimeoutMs;
  }

  /** Resolves when more may be written. Rejects with ClientGone, after which the connection is cut. */
  async write(data: string | Uint8Array): Promise<void> {
    this.#requireClient();
    if (this.#response.write(data)) return;
    await this.#until((drained) => this.#response.once("drain", drained));
  }

  /** Like `write`, but each part in one write, and resolves when all were sent and their memory can be reused. */
  async writeWhole(...parts: readonly Uint8Array[]): Promise<void> {
    this.#requireClient();
    await this.#until((sent) => {
      for (const part of parts.slice(0, -1)) this.#response.write(part);
      this.#response.write(parts.at(-1), (error) => {
        // After an error the connection closes, which is awaited as well.
        if (error === null || error === undefined) sent();
      });
    });
  }

  #requireClient(): void {
    if (this.#response.destroyed) throw new ClientGone("the client has disconnected");
  }

  async #until(begin: (done: () => void) => void): Promise<void> {
    const response = this.#response;
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const left = (): void => reject(new ClientGone("the client has disconnected"));
    const deadline = new ObservedDeadline(this.#stallTimeoutMs, () => {
      response.destroy();
      reject(new ClientGone(`the client read nothing for ${this.#stallTimeoutMs} ms`));
    });
    response.once("close", left);
    begin(resolve);
    try {
      await promise;
    } finally {
      deadline.stop();
      response.off("close", left).off("drain", resolve);
    }
  }
}
