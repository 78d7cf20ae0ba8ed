/** Requests that are answered by one message. */
import { requestSchema, SandboxError } from "@sandkasten/protocol";
import type { RunnerRequest } from "@sandkasten/protocol";
import type { ByteSource } from "../ports/channel.ts";
import { checked } from "./checked-message.ts";
import type { Connection } from "./connection.ts";
import { ConnectionFailure } from "./connection-failure.ts";
import type { ConnectionHolder } from "./connection-holder.ts";
import { StreamSink } from "./stream-sink.ts";
import type { StreamOutcome } from "./stream-sink.ts";
import { fromConnectionFailure, fromRunnerError, missedDeadline } from "./translate-errors.ts";

interface AnswerSchema<T> {
  safeParse(value: unknown): { success: true; data: T } | { success: false; error: Error };
}

/** Refuses a request that the protocol has no room for, naming the field. */
export function checkRequest(request: RunnerRequest): RunnerRequest {
  const result = requestSchema.safeParse(request);
  if (result.success) return request;
  const issue = result.error.issues[0];
  const issues = issue?.code === "invalid_union" ? issue.errors.flat() : result.error.issues;
  const told =
    issues.find((i) => i.path.length > 0 && i.path[0] !== "op" && i.path[0] !== "mode") ??
    issues[0];
  const field = told?.path.join(".") ?? request.op;
  throw new SandboxError(
    "INVALID_REQUEST",
    `${request.op}: ${field} is not valid: ${told?.message ?? "unknown form"}`,
    {
      details: { operation: request.op, field },
    },
  );
}

/** The living connection, or a new one; a failure to get it is an error of the catalogue. */
export async function connectionFor(holder: ConnectionHolder, what: string): Promise<Connection> {
  try {
    return holder.current ?? (await holder.get());
  } catch (error) {
    if (error instanceof ConnectionFailure) throw fromConnectionFailure(what, error);
    throw error;
  }
}

/** The error that an outcome other than a response stands for. */
export function outcomeError(
  op: RunnerRequest["op"],
  outcome: Exclude<StreamOutcome, { kind: "response" }>,
): SandboxError {
  switch (outcome.kind) {
    case "error":
      return fromRunnerError(op, outcome.error);
    case "stalled":
      return missedDeadline(op);
    case "lost":
      return fromConnectionFailure(op, outcome.failure);
  }
}

class AnswerSink<T> extends StreamSink {
  readonly answer = Promise.withResolvers<T>();
  readonly #op: RunnerRequest["op"];
  readonly #schema: AnswerSchema<T>;

  constructor(op: RunnerRequest["op"], schema: AnswerSchema<T>) {
    super();
    this.#op = op;
    this.#schema = schema;
  }

  override finish(outcome: StreamOutcome): void {
    if (outcome.kind === "response")
      this.answer.resolve(checked(this.#schema, outcome.message, `answer to ${this.#op}`));
    else this.answer.reject(outcomeError(this.#op, outcome));
  }
}

/** Sends a request and gives its answer. */
export async function call<T>(
  holder: ConnectionHolder,
  request: RunnerRequest,
  schema: AnswerSchema<T>,
  deadlineMs: number = holder.deadlines.answerMs,
): Promise<T> {
  checkRequest(request);
  const connection = await connectionFor(holder, request.op);
  const sink = new AnswerSink(request.op, schema);
  connection.openStream(request, sink, { deadlineMs });
  return sink.answer.promise;
}

/** Sends a request with a body and gives its answer. A source that throws cancels the request and its error is passed on. */
export async function callWithBody<T>(
  holder: ConnectionHolder,
  request: RunnerRequest,
  body: ByteSource,
  schema: AnswerSchema<T>,
): Promise<T> {
  checkRequest(request);
  const deadlineMs = holder.deadlines.slowAnswerMs;
  const connection = await connectionFor(holder, request.op);
  const sink = new AnswerSink(request.op, schema);
  if (body instanceof Uint8Array) {
    connection.openStream(request, sink, { deadlineMs, body, end: true });
    return sink.answer.promise;
  }
  // The answer is awaited only after the body; an early refusal must not count as unhandled until then.
  sink.answer.promise.catch(() => undefined);
  const stream = connection.openStream(request, sink, { deadlineMs, body: new Uint8Array() });
  try {
    for await (const bytes of body) {
      if (!(await stream.send(bytes))) break;
    }
  } catch (error) {
    stream.deadlineMs = holder.deadlines.answerMs;
    stream.withdraw();
    // The caller can look at once: by then the runner has undone what it began.
    await sink.answer.promise.catch(() => undefined);
    throw error;
  }
  stream.sendEnd();
  return sink.answer.promise;
}
