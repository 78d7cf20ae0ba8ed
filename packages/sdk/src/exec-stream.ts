/** The output of a running command. */
import { cancelStarted } from "./cancel-started.ts";
import { deferred } from "./deferred.ts";
import { Exec } from "./exec.ts";
import {
  type Command,
  type ExecInfo,
  type ExecOptions,
  type OutputChunk,
  toExecRequest,
} from "./exec-types.ts";
import { followOutput } from "./follow-output.ts";
import { pause } from "./retry.ts";
import { SandboxError } from "./sandbox-error.ts";
import { camelOptions } from "./snake-names.ts";
import { type Call, path, type Transport } from "./transport.ts";

/**
 * A running command. Iterate it for its output: each byte arrives once, in order, even if the
 * connection breaks, and the command waits for a slow reader. `result` says how it ended, with or
 * without a loop. Leaving the loop does not end the command; `(await stream.exec).cancel()` does.
 */
export class ExecStream implements AsyncIterable<OutputChunk> {
  readonly #transport: Transport;
  readonly #call: Call;
  readonly #exec: Promise<Exec>;
  /** The connection that started the command, until it is read. */
  #unread: Promise<Response> | undefined;
  /** The end that the last loop saw; undefined if it was left early. */
  #reading: Promise<ExecInfo | undefined> | undefined;
  #result: Promise<ExecInfo> | undefined;
  /** Set once the caller aborted a command that should end with that. */
  #cancelling: Promise<void> | undefined;

  /** @internal */
  constructor(transport: Transport, sessionId: string, cmd: Command, given: ExecOptions) {
    const options = camelOptions(given);
    this.#transport = transport;
    this.#call = {
      method: "POST",
      path: path`/v1/sessions/${sessionId}/exec/stream`,
      json: toExecRequest(cmd, { ...options, raw: true }),
      headers: { accept: "text/event-stream" },
      idempotencyKey: options.idempotencyKey ?? crypto.randomUUID(),
      signal: options.signal,
    };
    this.#unread = transport.open(this.#call);
    this.#exec = this.#unread.then((response) => {
      const id = response.headers.get("x-exec-id");
      if (id !== null) return new Exec(transport, sessionId, id);
      const message = "The daemon did not say which command this is; is it older than this SDK?";
      throw new SandboxError("INTERNAL_ERROR", message);
    });
    if (options.onAbort === "cancel")
      options.signal?.addEventListener("abort", () => this.#cancel(sessionId), { once: true });
    // Iterating, or awaiting `exec` or `result`, reports the failure. Neither is required.
    this.#exec.catch(() => undefined);
  }

  /** The command, as soon as the daemon has it. */
  get exec(): Promise<Exec> {
    return this.#exec;
  }

  /** How the command ended. A timeout is part of it, not an error. */
  get result(): Promise<ExecInfo> {
    this.#result ??= this.#findResult();
    return this.#result;
  }

  /** The output from its beginning on. */
  async *[Symbol.asyncIterator](): AsyncGenerator<OutputChunk, void, undefined> {
    const reading = deferred<ExecInfo | undefined>();
    this.#reading = reading.promise;
    try {
      const info = yield* followOutput({
        open: (cursor) => this.#open(cursor),
        transport: this.#transport,
        cursor: 0,
        signal: this.#call.signal,
        what: `following ${this.#call.path}`,
      });
      reading.resolve(info);
    } catch (error) {
      await this.#cancelling;
      throw error;
    } finally {
      reading.resolve(undefined);
    }
  }

  /**
   * Starts with the connection that started the command, and continues by the command's id: it
   * never runs twice.
   */
  async #open(cursor: number): Promise<Response> {
    const unread = this.#unread;
    this.#unread = undefined;
    if (unread !== undefined) return unread;
    const exec = await this.#exec;
    return exec.openStream({ cursor, signal: this.#call.signal });
  }

  async #findResult(): Promise<ExecInfo> {
    // Lets a concurrent loop, as in `Promise.all`, take the connection.
    await pause(0, this.#call.signal);
    const info = await this.#reading;
    if (info !== undefined) return info;
    const exec = await this.#exec;
    await this.#letGo();
    const { signal } = this.#call;
    await exec.wait({ outputBudgetBytes: 0, signal });
    return exec.info({ signal });
  }

  #cancel(sessionId: string): void {
    this.#cancelling = cancelStarted(this.#transport, sessionId, this.#call);
    // Readers get the failure.
    this.#cancelling.catch(() => undefined);
  }

  /** A command waits for its readers, and there will be none. */
  async #letGo(): Promise<void> {
    const unread = this.#unread;
    this.#unread = undefined;
    await (await unread)?.body?.cancel();
  }
}
