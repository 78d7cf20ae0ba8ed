/** Calls to an engine: one client that is made when it is first needed, a deadline, and what a refusal means. */
import type { SandboxError } from "@sandkasten/protocol";
import type Docker from "dockerode";
import { connectEngine } from "./engine-connection.ts";
import type { DockerConnection } from "./engine-connection.ts";
import { engineFailure, engineRefusal } from "./engine-errors.ts";
import type { EngineRefusal } from "./engine-errors.ts";

const CALL_TIMEOUT_MS = 30_000;
/** Starting and removing wait for the kernel, which may have much to do. */
export const SLOW_CALL_TIMEOUT_MS = 120_000;

export interface CallOptions<R> {
  readonly timeoutMs?: number;
  /** What the engine's no means; undefined where that is a failure. */
  readonly refused?: (refusal: EngineRefusal) => R | undefined;
  /** The error that the engine's no is here, where it has a meaning of its own. */
  readonly translate?: (refusal: EngineRefusal, cause: unknown) => SandboxError | undefined;
}

export class EngineClient {
  readonly #connection: DockerConnection;
  #client: Promise<Docker> | undefined;
  #patient: Promise<Docker> | undefined;

  constructor(connection: DockerConnection) {
    this.#connection = connection;
  }

  /** For streams, which may be silent for any time. */
  async patient(): Promise<Docker> {
    this.#patient ??= connectEngine(this.#connection);
    return await this.#patient;
  }

  /** One call; `doing` names the stage in errors. */
  async call<T, R = never>(
    doing: string,
    work: (docker: Docker) => Promise<T>,
    { timeoutMs = CALL_TIMEOUT_MS, refused, translate }: CallOptions<R> = {},
  ): Promise<T | R> {
    this.#client ??= connectEngine(this.#connection, SLOW_CALL_TIMEOUT_MS);
    // The library waits for ever when a connection breaks in the middle of an answer.
    const late = Promise.withResolvers<never>();
    const timer = setTimeout(
      () => late.reject(new Error(`no answer within ${timeoutMs / 1000} s`)),
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
