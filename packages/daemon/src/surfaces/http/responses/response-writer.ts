/** Writes an answer as fast as the client takes it, and no faster. */
import type { ServerResponse } from "node:http";
import { ObservedDeadline } from "../../../observed-deadline.ts";

/** The client left, or took nothing for too long; there is nobody to tell. */
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

  /** As `write`, but resolves when the bytes are on their way and their memory can be used again. */
  async writeWhole(bytes: Uint8Array): Promise<void> {
    this.#requireClient();
    await this.#until((sent) => {
      this.#response.write(bytes, (error) => {
        // After an error comes the end of the connection, which is waited for as well.
        if (error === null || error === undefined) sent();
      });
    });
  }

  #requireClient(): void {
    if (this.#response.destroyed) throw new ClientGone("the client has left");
  }

  async #until(begin: (done: () => void) => void): Promise<void> {
    const response = this.#response;
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const left = (): void => reject(new ClientGone("the client has left"));
    const deadline = new ObservedDeadline(this.#stallTimeoutMs, () => {
      response.destroy();
      reject(new ClientGone(`the client took nothing for ${this.#stallTimeoutMs} ms`));
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
