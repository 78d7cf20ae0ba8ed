/** Assembles the chunks in which a chat-completions API streams its answer. */
import { randomUUID } from "node:crypto";
import type { GenerateResponseData, Part } from "genkit/model";
import { isDeeperThan } from "../json-depth.ts";
import { JSON_SHAPE, shapeProblem } from "../json-shape.ts";
import { ModelFailure } from "./model-failure.ts";

/** Limits of a turn. No real answer reaches them. */
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

/** Ids and names of calls appear in events and in every further request. */
const MAX_NAME_LENGTH = 256;

/** The metadata key of a tool call whose arguments were not valid JSON. */
export const MALFORMED_ARGUMENTS = "malformedArguments";

/** A server may send anything, so each part is checked before use. */
type Unchecked = Readonly<Record<string, unknown>>;

interface PendingCall {
  id: string;
  name: string;
  /** Joined once: appending to a long text takes quadratic time. */
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
  #usage: Unchecked | undefined;

  constructor(limits: TurnLimits) {
    this.#limits = limits;
  }

  /** Whether the model has reported that it is done. */
  get isComplete(): boolean {
    return this.#finishReason !== undefined;
  }

  /** Adds a chunk and returns the text in it. Throws ModelFailure. */
  add(piece: unknown): string {
    const { choices, usage, error } = objectOf(piece) ?? {};
    if (error !== undefined && error !== null) throw failureOf(error);
    this.#usage = objectOf(usage) ?? this.#usage;
    const choice = objectOf(listOf(choices)[0]);
    if (choice === undefined) return "";
    const { finish_reason: finishReason, delta, message } = choice;
    if (typeof finishReason === "string") this.#finishReason = finishReason;
    const said = objectOf(delta) ?? objectOf(message) ?? {};
    for (const [position, item] of listOf(said["tool_calls"]).entries()) {
      const call = objectOf(item) ?? {};
      this.#addCall(typeof call["index"] === "number" ? call["index"] : position, call);
    }
    this.#count(textOf(said["reasoning_content"]));
    const text = textOf(said["content"]);
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
        inputTokens: countOf(this.#usage?.["prompt_tokens"]),
        outputTokens: countOf(this.#usage?.["completion_tokens"]),
      },
    };
  }

  #addCall(index: number, { id, function: given }: Unchecked): void {
    const called = objectOf(given);
    let call = this.#calls.get(index);
    if (call === undefined) {
      if (this.#calls.size >= this.#limits.maxToolCalls)
        throw tooLong(`more than ${this.#limits.maxToolCalls} tool calls`);
      call = { id: "", name: "", pieces: [] };
      this.#calls.set(index, call);
    }
    // An id that is too long counts as missing, and a name that is too long matches no tool.
    if (typeof id === "string" && id !== "" && id.length <= MAX_NAME_LENGTH) call.id = id;
    const name = textOf(called?.["name"]).slice(0, MAX_NAME_LENGTH);
    if (name !== "") call.name = name;
    const args = called?.["arguments"];
    if (args === undefined || args === null) return;
    // Some servers send an object where the API has a string.
    const piece = typeof args === "string" ? args : writtenAsJson(args);
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

/**
 * SECURITY: a model that never stops must not fill the memory. Guarded by chat-completions.test.ts.
 */
export function tooLong(what: string): ModelFailure {
  return new ModelFailure(`The model produced ${what} in one turn and was stopped.`, {
    retryable: false,
    isTooLong: true,
  });
}

function failureOf(error: unknown): ModelFailure {
  const message = textOf(objectOf(error)?.["message"] ?? error) || "an error without a message";
  return new ModelFailure(`The model server reported: ${message}`, { retryable: true });
}

function objectOf(value: unknown): Unchecked | undefined {
  return typeof value === "object" && value !== null ? (value as Unchecked) : undefined;
}

function listOf(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [];
}

function textOf(value: unknown): string {
  return typeof value === "string" ? value : "";
}

/** An integer within reason, because it is summed up and stored. */
function countOf(value: unknown): number {
  return typeof value === "number" && value > 0 && value < 1e12 ? Math.floor(value) : 0;
}

function writtenAsJson(value: unknown): string {
  if (!isDeeperThan(value, JSON_SHAPE.maxDepth)) return JSON.stringify(value);
  // JSON.stringify would overflow on a deeper value; this text is just deep enough to be refused
  // too.
  const depth = JSON_SHAPE.maxDepth + 2;
  return "[".repeat(depth) + "]".repeat(depth);
}

function toolRequest({ id, name, pieces }: PendingCall, seen: Set<string>): Part {
  // Answers are matched by id, so a missing or repeated id is replaced.
  const ref = id === "" || seen.has(id) ? `call_${randomUUID()}` : id;
  seen.add(ref);
  const text = pieces.join("");
  if (text.trim() === "") return { toolRequest: { name, ref, input: {} } };
  const malformed = (problem: string): Part => ({
    toolRequest: { name, ref, input: {} },
    metadata: { [MALFORMED_ARGUMENTS]: problem.slice(0, 200) },
  });
  try {
    // SECURITY: all other requests would wait while millions of values are parsed, checked and
    // stored. Guarded by chat-completions.test.ts.
    const problem = shapeProblem(text, JSON_SHAPE);
    if (problem !== undefined) return malformed(problem);
    const input: unknown = JSON.parse(text);
    return { toolRequest: { name, ref, input } };
  } catch (error) {
    return malformed(error instanceof Error ? error.message : String(error));
  }
}
