/** Requests that are answered by a single message. */
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

/** Rejects a request that the protocol cannot represent, naming the field. */
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

/** The open connection, or a new one; a failure becomes an error from the catalogue. */
export async function connectionFor(holder: ConnectionHolder, what: string): Promise<Connection> {
  try {
    return holder.current ?? (await holder.get());
  } catch (error) {
    if (error instanceof ConnectionFailure) throw fromConnectionFailure(what, error);
    throw error;
  }
}

/** The error that an outcome other than a response represents. */
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

/** Sends a request and returns its answer. */
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

/**
 * Sends a request with a body and returns its answer. If the source throws, the request is
 * cancelled and the error rethrown.
 */
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
  // The answer is awaited only after the body, so an early refusal must not count as an unhandled
  // rejection.
  sink.answer.promise.catch(() => undefined);
  const stream = connection.openStream(request, sink, { deadlineMs, body: new Uint8Array() });
  try {
    for await (const bytes of body) {
      if (!(await stream.send(bytes))) break;
    }
  } catch (error) {
    stream.deadlineMs = holder.deadlines.answerMs;
    stream.withdraw();
    // Wait until the runner has rolled back, so the caller sees no partial result.
    await sink.answer.promise.catch(() => undefined);
    throw error;
  }
  stream.sendEnd();
  return sink.answer.promise;
}
