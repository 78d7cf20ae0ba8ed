/** Puts together the pieces in which a chat-completions API sends its answer. */
import { randomUUID } from "node:crypto";
import type { GenerateResponseData, Part } from "genkit/model";
import { ModelFailure } from "./model-failure.ts";

/** What a turn may consist of. More was never meant to be used. */
export interface TurnLimits {
  readonly maxTextBytes: number;
  readonly maxArgumentBytes: number;
  readonly maxToolCalls: number;
}

export const DEFAULT_TURN_LIMITS: TurnLimits = {
  maxTextBytes: 1024 * 1024,
  maxArgumentBytes: 16 * 1024 * 1024,
  maxToolCalls: 128,
};

/** The part of a tool call whose arguments were no JSON says so here. */
export const MALFORMED_ARGUMENTS = "malformedArguments";

interface ChatDelta {
  readonly content?: string | null;
  readonly reasoning_content?: string | null;
  readonly tool_calls?: readonly {
    readonly index?: number;
    readonly id?: string | null;
    readonly function?: { readonly name?: string | null; readonly arguments?: unknown } | null;
  }[];
}

interface ChatChoice {
  readonly delta?: ChatDelta | null;
  readonly message?: ChatDelta | null;
  readonly finish_reason?: string | null;
}

interface ChatPiece {
  readonly choices?: readonly ChatChoice[];
  readonly usage?: {
    readonly prompt_tokens?: number;
    readonly completion_tokens?: number;
  } | null;
  readonly error?: { readonly message?: unknown; readonly code?: unknown } | string | null;
}

interface PendingCall {
  id: string;
  name: string;
  /** Joined once: to append to a long text costs its square. */
  readonly pieces: string[];
}

const FINISH_REASONS: Readonly<Record<string, GenerateResponseData["finishReason"]>> = {
  stop: "stop",
  tool_calls: "stop",
  function_call: "stop",
  length: "length",
  content_filter: "blocked",
};

export class ChatAnswer {
  readonly #limits: TurnLimits;
  readonly #text: string[] = [];
  readonly #calls = new Map<number, PendingCall>();
  #textBytes = 0;
  #argumentBytes = 0;
  #finishReason: string | undefined;
  #usage: ChatPiece["usage"];

  constructor(limits: TurnLimits) {
    this.#limits = limits;
  }

  /** Whether the model has said that it is done. */
  get isComplete(): boolean {
    return this.#finishReason !== undefined;
  }

  /** Takes a piece and returns the text in it. Throws ModelFailure. */
  add(piece: unknown): string {
    const { choices = [], usage, error } = (piece ?? {}) as ChatPiece;
    if (error !== undefined && error !== null) throw failureOf(error);
    if (usage !== undefined && usage !== null) this.#usage = usage;
    const [choice] = choices;
    if (choice === undefined) return "";
    if (typeof choice.finish_reason === "string") this.#finishReason = choice.finish_reason;
    const { content, reasoning_content, tool_calls } = choice.delta ?? choice.message ?? {};
    for (const [position, call] of (tool_calls ?? []).entries())
      this.#addCall(call.index ?? position, call);
    this.#count(reasoning_content ?? "");
    const text = content ?? "";
    this.#count(text);
    if (text !== "") this.#text.push(text);
    return text;
  }

  response(): GenerateResponseData {
    const content: Part[] = [];
    const text = this.#text.join("");
    if (text !== "") content.push({ text });
    const calls = [...this.#calls.entries()].toSorted(([one], [other]) => one - other);
    const seen = new Set<string>();
    for (const [, call] of calls) content.push(toolRequest(call, seen));
    return {
      message: { role: "model", content },
      finishReason: FINISH_REASONS[this.#finishReason ?? ""] ?? "other",
      usage: {
        inputTokens: this.#usage?.prompt_tokens ?? 0,
        outputTokens: this.#usage?.completion_tokens ?? 0,
      },
    };
  }

  #addCall(
    index: number,
    { id, function: called }: NonNullable<ChatDelta["tool_calls"]>[number],
  ): void {
    let call = this.#calls.get(index);
    if (call === undefined) {
      if (this.#calls.size >= this.#limits.maxToolCalls)
        throw tooLong(`more than ${this.#limits.maxToolCalls} tool calls`);
      call = { id: "", name: "", pieces: [] };
      this.#calls.set(index, call);
    }
    if (typeof id === "string" && id !== "") call.id = id;
    if (typeof called?.name === "string" && called.name !== "") call.name = called.name;
    if (called?.arguments === undefined || called.arguments === null) return;
    // Some servers send an object where the API has its text.
    const piece =
      typeof called.arguments === "string" ? called.arguments : JSON.stringify(called.arguments);
    this.#argumentBytes += piece.length;
    if (this.#argumentBytes > this.#limits.maxArgumentBytes)
      throw tooLong(`tool calls of more than ${this.#limits.maxArgumentBytes} bytes`);
    call.pieces.push(piece);
  }

  #count(text: string): void {
    this.#textBytes += text.length;
    if (this.#textBytes > this.#limits.maxTextBytes)
      throw tooLong(`more than ${this.#limits.maxTextBytes} bytes of text`);
  }
}

/** SECURITY: a model that never stops must not fill the memory. Guarded by chat-completions.test.ts. */
export function tooLong(what: string): ModelFailure {
  return new ModelFailure(`The model produced ${what} in one turn and was stopped.`, {
    retryable: false,
    isTooLong: true,
  });
}

function failureOf(error: NonNullable<ChatPiece["error"]>): ModelFailure {
  const message = typeof error === "string" ? error : error.message;
  return new ModelFailure(`The model server reported: ${String(message).slice(0, 500)}`, {
    retryable: true,
  });
}

function toolRequest({ id, name, pieces }: PendingCall, seen: Set<string>): Part {
  // Answers are told apart by the id, so that a missing or repeated one needs another.
  const ref = id === "" || seen.has(id) ? `call_${randomUUID()}` : id;
  seen.add(ref);
  const text = pieces.join("");
  if (text.trim() === "") return { toolRequest: { name, ref, input: {} } };
  try {
    return { toolRequest: { name, ref, input: JSON.parse(text) as unknown } };
  } catch (error) {
    const problem = error instanceof Error ? error.message : String(error);
    return {
      toolRequest: { name, ref, input: {} },
      metadata: { [MALFORMED_ARGUMENTS]: problem.slice(0, 200) },
    };
  }
}
