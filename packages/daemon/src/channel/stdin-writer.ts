/** Sends input to a running command. */
import { SandboxError } from "@sandkasten/protocol";
import type { WireStream } from "./wire-stream.ts";

export class StdinWriter {
  readonly #execId: string;
  /** `broken`: a connection was lost with input in flight; how much of it arrived is unknown. */
  #state: "not-asked-for" | "open" | "closed" | "ended" | "broken";
  #wrote = false;
  #stream: WireStream | undefined;
  #attached = Promise.withResolvers<void>();

  constructor(execId: string, wanted: boolean) {
    this.#execId = execId;
    this.#state = wanted ? "open" : "not-asked-for";
  }

  /** Whether a new attachment may continue the input. */
  get resumable(): boolean {
    return this.#state === "open";
  }

  attachTo(stream: WireStream): void {
    this.#stream = stream;
    this.#attached.resolve();
  }

  lose(): void {
    this.#stream = undefined;
    this.#attached.resolve();
    this.#attached = Promise.withResolvers();
    if (this.#wrote && (this.#state === "open" || this.#state === "closed")) this.#state = "broken";
  }

  end(): void {
    if (this.#state === "open") this.#state = "ended";
    this.#attached.resolve();
  }

  async write(bytes: Uint8Array): Promise<void> {
    const stream = await this.#openStream();
    this.#wrote = true;
    if (!(await stream.send(bytes))) throw this.#refusal();
  }

  async close(): Promise<void> {
    const stream = await this.#openStream();
    this.#wrote = true;
    this.#state = "closed";
    stream.sendEnd();
  }

  async #openStream(): Promise<WireStream> {
    while (this.#state === "open") {
      if (this.#stream !== undefined) return this.#stream;
      await this.#attached.promise;
    }
    throw this.#refusal();
  }

  #refusal(): SandboxError {
    switch (this.#state) {
      case "not-asked-for":
        return this.#conflict("it was started without an open stdin; start it with `stdin_open`");
      case "closed":
        return this.#conflict("its stdin is already closed");
      case "open":
      case "ended":
        return this.#conflict("it has ended or was detached");
      case "broken":
        return new SandboxError(
          "SANDBOX_UNREACHABLE",
          `the connection was lost while input for ${this.#execId} was being sent; end the command and start it again`,
        );
    }
  }

  #conflict(why: string): SandboxError {
    return new SandboxError(
      "CONFLICT",
      `the command ${this.#execId} does not accept input: ${why}`,
    );
  }
}
