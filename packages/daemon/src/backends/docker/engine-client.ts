/** Calls to an engine: a client created on first use, a timeout, and the translation of refusals. */
import type { SandboxError } from "@sandkasten/protocol";
import type Docker from "dockerode";
import { connectEngine } from "./engine-connection.ts";
import type { DockerConnection } from "./engine-connection.ts";
import { engineFailure, engineRefusal } from "./engine-errors.ts";
import type { EngineRefusal } from "./engine-errors.ts";

const CALL_TIMEOUT_MS = 30_000;
/** Starting and removing wait for the kernel, which may be slow. */
export const SLOW_CALL_TIMEOUT_MS = 120_000;

export interface CallOptions<R> {
  readonly timeoutMs?: number;
  /** The result that the engine's refusal stands for; undefined if it is a failure. */
  readonly refused?: (refusal: EngineRefusal) => R | undefined;
  /** The error for the engine's refusal, if it has a specific meaning here. */
  readonly translate?: (refusal: EngineRefusal, cause: unknown) => SandboxError | undefined;
}

export class EngineClient {
  readonly #connection: DockerConnection;
  #client: Promise<Docker> | undefined;
  #patient: Promise<Docker> | undefined;

  constructor(connection: DockerConnection) {
    this.#connection = connection;
  }

  /** For streams, which may be silent for any length of time. */
  async patient(): Promise<Docker> {
    this.#patient ??= connectEngine(this.#connection);
    return await this.#patient;
  }

  /** One call; `doing` names the step in errors. */
  async call<T, R = never>(
    doing: string,
    work: (docker: Docker) => Promise<T>,
    { timeoutMs = CALL_TIMEOUT_MS, refused, translate }: CallOptions<R> = {},
  ): Promise<T | R> {
    this.#client ??= connectEngine(this.#connection, SLOW_CALL_TIMEOUT_MS);
    // The library waits forever if a connection breaks in the middle of a response.
    const late = Promise.withResolvers<never>();
    const timer = setTimeout(
      () => late.reject(new Error(`no response within ${timeoutMs / 1000} s`)),
      timeoutMs,
    );
    try {
      return await Promise.race([work(await this.#client), late.promise]);
    } catch (error) {
      const refusal = engineRefusal(error);
      const meaning = refusal && refused?.(refusal);
      if (meaning !== undefined) return meaning;
      throw (refusal && translate?.(refusal, error)) ?? engineFailure(error, doing);
    } finally {
      clearTimeout(timer);
    }
  }
}
