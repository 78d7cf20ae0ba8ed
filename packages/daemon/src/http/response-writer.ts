/** Writes an answer as fast as the client takes it, and no faster. */
import type { ServerResponse } from "node:http";

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
    if (this.#response.destroyed) throw new ClientGone("the client has left");
    if (!this.#response.write(data)) await this.#drained();
  }

  #drained(): Promise<void> {
    const response = this.#response;
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const done = (): void => {
      clearTimeout(timer);
      response.off("drain", onDrain).off("close", onClose);
    };
    const onDrain = (): void => {
      done();
      resolve();
    };
    const onClose = (): void => {
      done();
      reject(new ClientGone("the client has left"));
    };
    const timer = setTimeout(() => {
      done();
      response.destroy();
      reject(new ClientGone(`the client took nothing for ${this.#stallTimeoutMs} ms`));
    }, this.#stallTimeoutMs);
    response.on("drain", onDrain).on("close", onClose);
    return promise;
  }
}
