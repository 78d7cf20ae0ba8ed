/** The tool loop: asks the model, runs its tool calls, and repeats until it has answered. */
import type { GenerateRequest, GenerateResponseData, MessageData, Part } from "genkit/model";
import type { Logger } from "pino";
import type { TurnLimits } from "../models/chat-answer.ts";
import type { Model } from "../models/model-registry.ts";
import type { AgentDefinition } from "../prompts/agent-definition.ts";
import { AgentRunError } from "./agent-executor.ts";
import type { RunUsage } from "./agent-executor.ts";
import type { AgentTool } from "./agent-tool.ts";
import { answerInstructions, checkAnswer, correctionRequest } from "./final-answer.ts";
import { takeTurn } from "./model-turn.ts";
import type { RetryPolicy } from "./model-turn.ts";
import type { RunClock } from "./run-clock.ts";
import { inSpan } from "../telemetry/spans.ts";
import { shortenedTo } from "./shorten.ts";
import { TextBuffer } from "./text-buffer.ts";
import { runToolCalls } from "./tool-calls.ts";

export interface LoopOptions {
  readonly idleTimeoutMs: number;
  readonly retry: RetryPolicy;
  readonly limits: TurnLimits;
}

export interface AgentLoop extends LoopOptions {
  readonly definition: AgentDefinition;
  readonly model: Model;
  readonly messages: readonly MessageData[];
  readonly tools: readonly AgentTool[];
  readonly signal: AbortSignal;
  readonly clock: RunClock;
  readonly emit: (type: string, data: object) => void;
  readonly onProgress: (steps: number, usage: RunUsage) => void;
  readonly log: Logger;
}

export interface LoopResult {
  readonly text: string;
  readonly output: unknown;
}

/** How often a model may correct an answer of the wrong form. */
const MAX_CORRECTIONS = 2;
/** Longer arguments are shortened in the model's history: it knows what it wrote. */
const MAX_REMEMBERED_LENGTH = 64 * 1024;

/** Throws AgentRunError, or the signal's reason. */
export async function runLoop(loop: AgentLoop): Promise<LoopResult> {
  const { definition, signal, onProgress } = loop;
  const tools = new Map(loop.tools.map((tool) => [tool.name, tool]));
  const messages = withInstructions(loop.messages, answerInstructions(definition));
  const usage = { inputTokens: 0, outputTokens: 0 };
  let corrections = 0;
  for (let step = 1; step <= definition.maxSteps; step++) {
    const response = await turn(loop, step, messages);
    usage.inputTokens += response.usage?.inputTokens ?? 0;
    usage.outputTokens += response.usage?.outputTokens ?? 0;
    onProgress(step, usage);
    const content = response.message?.content ?? [];
    const requests = content.filter((part) => part.toolRequest !== undefined);
    if (requests.length > 0) {
      const answers = await runToolCalls(requests, { ...loop, tools });
      messages.push(remembered(content), { role: "tool", content: answers });
      continue;
    }
    const text = content.map((part) => part.text ?? "").join("");
    const { output, problem } = checkAnswer(definition, text);
    if (problem === undefined) return { text, output };
    corrections += 1;
    if (corrections > MAX_CORRECTIONS)
      throw new AgentRunError(
        "INVALID_OUTPUT",
        `The model's answer does not match the output schema of ${definition.name}, even after ${MAX_CORRECTIONS} corrections: ${problem}.`,
      );
    messages.push(remembered(content), userMessage(correctionRequest(problem)));
  }
  signal.throwIfAborted();
  throw new AgentRunError(
    "MAX_STEPS_EXCEEDED",
    `The agent ${definition.name} used all of its ${definition.maxSteps} steps without finishing. Raise max_steps if it was making progress, or check its tool calls for a loop.`,
  );
}

async function turn(
  loop: AgentLoop,
  step: number,
  messages: readonly MessageData[],
): Promise<GenerateResponseData> {
  const { definition, model, signal, idleTimeoutMs, retry, limits, emit } = loop;
  const request: GenerateRequest = {
    messages: [...messages],
    config: definition.config,
    tools: loop.tools.map(({ name, description, inputSchema }) => ({
      name,
      description,
      inputSchema: inputSchema as Record<string, unknown>,
    })),
  };
  const text = new TextBuffer((piece) => emit("text", { text: piece }));
  try {
    const attributes = { "gen_ai.request.model": model.name, "agent.turn": step };
    const response = await inSpan("model.turn", attributes, async (span) => {
      const answer = await takeTurn({
        model,
        request,
        signal,
        idleTimeoutMs,
        retry,
        maxTextBytes: limits.maxTextBytes,
        onText: (piece) => text.add(piece),
        onRetry: ({ attempt, delayMs, reason }) => {
          text.flush();
          emit("model_retry", { turn: step, attempt, delay_ms: delayMs, reason });
        },
      });
      span.setAttribute("gen_ai.usage.input_tokens", answer.usage?.inputTokens ?? 0);
      span.setAttribute("gen_ai.usage.output_tokens", answer.usage?.outputTokens ?? 0);
      return answer;
    });
    text.flush();
    refuseBlocked(model.name, response);
    emit("turn", {
      turn: step,
      finish_reason: response.finishReason,
      usage: {
        input_tokens: response.usage?.inputTokens ?? 0,
        output_tokens: response.usage?.outputTokens ?? 0,
      },
    });
    return response;
  } finally {
    text.flush();
  }
}

function refuseBlocked(name: string, { finishReason, finishMessage }: GenerateResponseData): void {
  if (finishReason !== "blocked") return;
  const reason = finishMessage === undefined ? "" : `: ${finishMessage.slice(0, 300)}`;
  throw new AgentRunError(
    "MODEL_FAILED",
    `The model ${name} refused to answer because of its provider's content filter${reason}.`,
  );
}

function withInstructions(
  messages: readonly MessageData[],
  instructions: string | undefined,
): MessageData[] {
  if (instructions === undefined) return [...messages];
  const [first, ...rest] = messages;
  if (first?.role !== "system")
    return [{ role: "system", content: [{ text: instructions }] }, ...messages];
  return [
    { role: "system", content: [...first.content, { text: `\n\n${instructions}` }] },
    ...rest,
  ];
}

function userMessage(text: string): MessageData {
  return { role: "user", content: [{ text }] };
}

/** The model's own turn, as later turns see it. */
function remembered(content: readonly Part[]): MessageData {
  const parts = content.map((part): Part => {
    if (part.toolRequest === undefined) return part;
    const { metadata: _, ...rest } = part;
    const input = shortenedTo(part.toolRequest.input, MAX_REMEMBERED_LENGTH);
    return { ...rest, toolRequest: { ...part.toolRequest, input } };
  });
  return { role: "model", content: parts.length === 0 ? [{ text: "(no answer)" }] : parts };
}
