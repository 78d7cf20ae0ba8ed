/**
 * Runs the tool calls of one turn concurrently and turns each result into one that a model can act
 * on.
 */
import type { Part } from "genkit/model";
import type { Logger } from "pino";
import { SandboxError } from "@sandkasten/sdk";
import { ToolError } from "@sandkasten/tools";
import { MALFORMED_ARGUMENTS } from "../models/chat-answer.ts";
import { suggestedName } from "../suggested-name.ts";
import { ToolFailure } from "./agent-tool.ts";
import type { AgentTool } from "./agent-tool.ts";
import { inSpan } from "../telemetry/spans.ts";
import type { RunClock } from "./run-clock.ts";
import { shortenedTo } from "./shorten.ts";

export interface ToolCallContext {
  readonly tools: ReadonlyMap<string, AgentTool>;
  readonly signal: AbortSignal;
  readonly clock: RunClock;
  readonly emit: (type: string, data: object) => void;
  readonly log: Logger;
}

/** What the span of a call says that ran no command and failed. */
const NO_COMMAND = { "sandbox.exit_code": -1 };
/** More at once would only wait for each other in the sandbox. */
const MAX_AT_ONCE = 8;
/** How much of a result a model gets; tools of the sandbox stay far below. */
const MAX_RESULT_LENGTH = 512 * 1024;
const MAX_EVENT_LENGTH = 64 * 1024;
/** How much of a command's output followers get; the result contains head and tail of all of it. */
const MAX_STREAMED_LENGTH = 256 * 1024;

/** The answers in the order of the requests. Rejects only with the signal's reason. */
export async function runToolCalls(
  requests: readonly Part[],
  context: ToolCallContext,
): Promise<Part[]> {
  const answers: Part[] = [];
  const waiting = requests.entries();
  const work = async (): Promise<void> => {
    for (const [index, request] of waiting) answers[index] = await runOne(request, context);
  };
  await Promise.all(Array.from({ length: Math.min(MAX_AT_ONCE, requests.length) }, work));
  return answers;
}

async function runOne(part: Part, context: ToolCallContext): Promise<Part> {
  const { toolRequest } = part;
  if (toolRequest === undefined) throw new Error("the part is not a tool request");
  const { name, ref = "", input } = toolRequest;
  context.signal.throwIfAborted();
  const { emit } = context;
  emit("tool_call", { call_id: ref, tool: name, input: shortenedTo(input, MAX_EVENT_LENGTH) });
  const startedMs = performance.now();
  const { output, isError } = await resultOf(part, context);
  emit("tool_result", {
    call_id: ref,
    tool: name,
    is_error: isError,
    output: shortenedTo(output, MAX_EVENT_LENGTH),
    duration_ms: Math.round(performance.now() - startedMs),
  });
  return { toolResponse: { name, ref, output: shortenedTo(output, MAX_RESULT_LENGTH) } };
}

async function resultOf(
  part: Part,
  context: ToolCallContext,
): Promise<{ readonly output: unknown; readonly isError: boolean }> {
  const { signal } = context;
  try {
    return { output: await call(part, context), isError: false };
  } catch (error) {
    signal.throwIfAborted();
    return { output: { error: visibleFailure(error, part, context.log) }, isError: true };
  }
}

async function call(part: Part, context: ToolCallContext): Promise<unknown> {
  const { name = "" } = part.toolRequest ?? {};
  const tool = context.tools.get(name);
  // Every call has a span, even a failed one; a name that a model made up is not recorded.
  if (tool === undefined)
    return await inSpan("unknown_tool", NO_COMMAND, () =>
      Promise.reject(unknownTool(name, [...context.tools.keys()])),
    );
  const malformed = part.metadata?.[MALFORMED_ARGUMENTS];
  if (typeof malformed === "string")
    return await inSpan(name, NO_COMMAND, () =>
      Promise.reject(
        new ToolFailure(
          "INVALID_INPUT",
          `The arguments of ${name} are not valid JSON (${malformed}). Send them again as one JSON object.`,
        ),
      ),
    );
  const run = (): Promise<unknown> => runTool(tool, part, context);
  return await (tool.isTraced === true ? run() : inSpan(name, {}, run));
}

async function runTool(
  tool: AgentTool,
  part: Part,
  { signal, clock, emit }: ToolCallContext,
): Promise<unknown> {
  const { ref: id = "", input } = part.toolRequest ?? {};
  const onOutput = streamOutput(id, emit);
  const running = (): Promise<unknown> =>
    untilAborted(tool.run(input ?? {}, { id, signal, onOutput, emit }), signal);
  return await (tool.pausesClock ? clock.paused(running) : running());
}

/** A tool that ignores the signal must not delay the end of the run. */
async function untilAborted<Result>(work: Promise<Result>, signal: AbortSignal): Promise<Result> {
  const { promise, reject } = Promise.withResolvers<never>();
  const abort = (): void => reject(signal.reason as Error);
  signal.addEventListener("abort", abort, { once: true });
  try {
    return await Promise.race([work, promise]);
  } finally {
    signal.removeEventListener("abort", abort);
  }
}

function streamOutput(
  callId: string,
  emit: ToolCallContext["emit"],
): (piece: { readonly stream: "stdout" | "stderr"; readonly text: string }) => void {
  let length = 0;
  return ({ stream, text }) => {
    if (length > MAX_STREAMED_LENGTH) return;
    length += text.length;
    if (length <= MAX_STREAMED_LENGTH) emit("tool_output", { call_id: callId, stream, text });
    else emit("tool_output", { call_id: callId, stream, text: "", truncated: true });
  };
}

function unknownTool(name: string, known: readonly string[]): ToolFailure {
  if (known.length === 0)
    return new ToolFailure("UNKNOWN_TOOL", "You have no tools. Answer without calling one.");
  const suggestion = suggestedName(name, known);
  const hint = suggestion === undefined ? "" : ` Did you mean ${suggestion}?`;
  return new ToolFailure(
    "UNKNOWN_TOOL",
    `There is no tool ${JSON.stringify(name.slice(0, 64))}.${hint} Your tools are ${known.join(", ")}.`,
  );
}

/**
 * SECURITY: errors that were not written for a model stay in the log. Stack traces, host paths and
 * addresses would tell a hostile prompt about the machine. Guarded by nasty-agents.serial.test.ts.
 */
function visibleFailure(
  error: unknown,
  part: Part,
  log: Logger,
): { readonly code: string; readonly message: string } {
  if (error instanceof ToolFailure) return { code: error.code, message: error.message };
  const tool = part.toolRequest?.name;
  if (error instanceof ToolError) {
    const isOurs = error.cause === undefined || error.cause instanceof SandboxError;
    const isReachable =
      !(error.cause instanceof SandboxError) || error.cause.code !== "CONNECTION_FAILED";
    if (isOurs && isReachable) return { code: error.code, message: error.message };
    log.warn({ err: error, tool }, "a sandbox tool failed");
    return {
      code: error.code,
      message: "The sandbox cannot be reached at the moment. Try again, or finish without it.",
    };
  }
  log.error({ err: error, tool }, "a tool failed");
  return {
    code: "TOOL_FAILED",
    message:
      "The tool failed for a reason unrelated to your input. Try again, or finish without it.",
  };
}
