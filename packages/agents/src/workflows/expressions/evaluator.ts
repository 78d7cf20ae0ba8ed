/** Evaluates expressions in a thread, with limits on time and memory. */
import { extname } from "node:path";
import { Worker } from "node:worker_threads";
import type { EvaluationAnswer, EvaluationRequest } from "./evaluation-worker.ts";

/** An expression has no value. The message is for the author of the workflow. */
export class EvaluationError extends Error {
  override readonly name = "EvaluationError";
}

export interface EvaluatorOptions {
  /** How much processor time one evaluation may use. */
  readonly maxCpuMs?: number;
  /** The maximum size of the variables and the values, as JSON. */
  readonly maxBytes?: number;
}

export const DEFAULT_MAX_CPU_MS = 2000;
/** Evaluations faster than this, as nearly all are, are not monitored. */
const WATCH_INTERVAL_MS = 50;
export const DEFAULT_MAX_BYTES = 8 * 1024 * 1024;
/** The old generation of the thread that evaluates expressions. */
export const MAX_HEAP_MIB = 128;
const SHOWN_LENGTH = 200;
/** TypeScript in a clone, JavaScript in a package. */
const WORKER = new URL(`./evaluation-worker${extname(import.meta.filename)}`, import.meta.url);

interface Job {
  readonly request: EvaluationRequest;
  readonly resolve: (values: readonly unknown[]) => void;
  readonly reject: (error: Error) => void;
}

/**
 * SECURITY: nested macros over lists, doubled texts and deep comparisons can take any amount of
 * time, and CEL's library has no limit. A thread that is too slow or too large is ended and
 * replaced; the next expression waits for a new one. Guarded by evaluator.test.ts.
 */
export class Evaluator implements AsyncDisposable {
  readonly #maxCpuMs: number;
  readonly #maxBytes: number;
  readonly #waiting: Job[] = [];
  #thread: Thread | undefined;
  #isBusy = false;
  #isClosed = false;

  constructor({
    maxCpuMs = DEFAULT_MAX_CPU_MS,
    maxBytes = DEFAULT_MAX_BYTES,
  }: EvaluatorOptions = {}) {
    this.#maxCpuMs = maxCpuMs;
    this.#maxBytes = maxBytes;
  }

  /** One value for each expression. Throws EvaluationError if one of them has none. */
  async evaluate(
    sources: readonly string[],
    variables: Readonly<Record<string, unknown>>,
  ): Promise<readonly unknown[]> {
    if (sources.length === 0) return [];
    const written = JSON.stringify(variables);
    if (written.length > this.#maxBytes)
      throw new EvaluationError(
        `the values that the expression reads have more than ${this.#maxBytes} bytes`,
      );
    const { promise, resolve, reject } = Promise.withResolvers<readonly unknown[]>();
    const request = { sources, variables: written, maxBytes: this.#maxBytes };
    this.#waiting.push({ request, resolve, reject });
    void this.#work();
    return await promise;
  }

  async #work(): Promise<void> {
    if (this.#isBusy) return;
    this.#isBusy = true;
    for (let job = this.#waiting.shift(); job !== undefined; job = this.#waiting.shift()) {
      try {
        job.resolve(await this.#run(job.request));
      } catch (error) {
        job.reject(error instanceof Error ? error : new Error(String(error)));
      }
    }
    this.#isBusy = false;
  }

  async #run(request: EvaluationRequest): Promise<readonly unknown[]> {
    if (this.#isClosed) throw new EvaluationError("the service is shutting down");
    this.#thread ??= new Thread();
    const answer = await this.#thread.ask(request, this.#maxCpuMs);
    if (answer === "late" || answer instanceof Error) {
      const ended = this.#thread;
      this.#thread = undefined;
      await ended.end();
      const shown = shorten(request.sources.join("; "));
      if (answer !== "late" && !isOutOfMemory(answer)) throw answer;
      throw new EvaluationError(
        answer === "late"
          ? `evaluating ${shown} took more than ${this.#maxCpuMs / 1000} s of processor time`
          : `evaluating ${shown} took too much memory`,
      );
    }
    if ("error" in answer) throw new EvaluationError(`${shorten(answer.source)}: ${answer.error}`);
    return answer.values;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#isClosed = true;
    await this.#thread?.end();
    this.#thread = undefined;
  }
}

function isOutOfMemory(error: Error): boolean {
  return "code" in error && error.code === "ERR_WORKER_OUT_OF_MEMORY";
}

function shorten(source: string): string {
  const line = source.replace(/\s+/g, " ").trim();
  return `\`${line.length > SHOWN_LENGTH ? `${line.slice(0, SHOWN_LENGTH)}…` : line}\``;
}

/** One worker, which handles one request at a time. */
class Thread {
  readonly #worker: Worker;
  readonly #ready: Promise<unknown>;
  /** Never rejects. */
  readonly #ended: Promise<Error>;

  constructor() {
    this.#worker = new Worker(WORKER, {
      resourceLimits: {
        maxOldGenerationSizeMb: MAX_HEAP_MIB,
        maxYoungGenerationSizeMb: 16,
        stackSizeMb: 2,
      },
      // The thread sees neither variables nor flags of the process.
      env: {},
      execArgv: [],
    });
    const ended = Promise.withResolvers<Error>();
    this.#ended = ended.promise;
    // Running out of memory is an error of the worker, which then exits.
    this.#worker.once("error", (error: Error) => ended.resolve(error));
    this.#worker.once("exit", () => ended.resolve(new Error("the thread of expressions ended")));
    this.#ready = this.#next();
  }

  async ask(
    request: EvaluationRequest,
    maxCpuMs: number,
  ): Promise<EvaluationAnswer | "late" | Error> {
    this.#worker.ref();
    const begun = await Promise.race([this.#ready, this.#ended]);
    if (begun instanceof Error) return begun;
    const watch = this.#watch(maxCpuMs);
    try {
      const answered = this.#next() as Promise<EvaluationAnswer>;
      this.#worker.postMessage(request);
      return await Promise.race([answered, watch.late, this.#ended]);
    } finally {
      watch.stop();
      // An idle thread does not keep the process alive.
      this.#worker.unref();
    }
  }

  /**
   * Measures processor time: on a busy machine, a harmless expression can take long in wall time.
   */
  #watch(maxCpuMs: number): { readonly late: Promise<"late">; readonly stop: () => void } {
    const { promise: late, resolve } = Promise.withResolvers<"late">();
    let before: NodeJS.CpuUsage | undefined;
    const look = async (): Promise<void> => {
      try {
        before ??= await this.#worker.cpuUsage();
        const { user, system } = await this.#worker.cpuUsage(before);
        if ((user + system) / 1000 > maxCpuMs) resolve("late");
      } catch {
        // The thread has ended; `#ended` reports that.
      }
    };
    const timer = setInterval(() => void look(), WATCH_INTERVAL_MS);
    return { late, stop: () => clearInterval(timer) };
  }

  async end(): Promise<void> {
    await this.#worker.terminate();
  }

  #next(): Promise<unknown> {
    const { promise, resolve } = Promise.withResolvers<unknown>();
    this.#worker.once("message", resolve);
    return promise;
  }
}
