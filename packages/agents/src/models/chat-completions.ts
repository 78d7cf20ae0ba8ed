/** A Genkit model for every server that speaks OpenAI's chat-completions API. */
import type {
  GenerateRequest,
  GenerateResponseChunkData,
  GenerateResponseData,
} from "genkit/model";
import { ChatAnswer, DEFAULT_TURN_LIMITS } from "./chat-answer.ts";
import type { TurnLimits } from "./chat-answer.ts";
import { toChatMessages, toChatTool } from "./chat-messages.ts";
import {
  isPassingHttpStatus,
  ModelFailure,
  parseRetryAfter,
  toModelFailure,
} from "./model-failure.ts";

export interface ChatCompletionsOptions {
  /** Ends before `/chat/completions`. */
  readonly baseUrl: string;
  readonly apiKey: string | undefined;
  readonly headers?: Readonly<Record<string, string>> | undefined;
  readonly limits?: TurnLimits | undefined;
}

export const OPENAI_URL = "https://api.openai.com/v1";
const MAX_ERROR_BYTES = 64 * 1024;
/** The API has no legitimate use for longer event lines. */
const MAX_LINE_LENGTH = 32 * 1024 * 1024;

export interface ModelCall {
  readonly sendChunk: (chunk: GenerateResponseChunkData) => void;
  readonly abortSignal?: AbortSignal | undefined;
}

/** Sends one request and streams the answer. Throws ModelFailure. */
export async function askChatModel(
  name: string,
  options: ChatCompletionsOptions,
  request: GenerateRequest,
  call: ModelCall,
): Promise<GenerateResponseData> {
  try {
    return await ask(name, options, request, call);
  } catch (error) {
    throw toModelFailure(error, [options.apiKey]);
  }
}

async function ask(
  name: string,
  options: ChatCompletionsOptions,
  request: GenerateRequest,
  call: ModelCall,
): Promise<GenerateResponseData> {
  const response = await post(options, bodyOf(name, options, request), call.abortSignal);
  const answer = new ChatAnswer(options.limits ?? DEFAULT_TURN_LIMITS);
  const take = (piece: unknown): void => {
    const text = answer.add(piece);
    // Also without text, because it shows that the model is working.
    call.sendChunk({ content: text === "" ? [] : [{ text }] });
  };
  if ((response.headers.get("content-type") ?? "").includes("application/json")) {
    take(await readJson(response));
    return answer.response();
  }
  const isDone = await readPieces(response, take);
  if (!isDone && !answer.isComplete)
    throw new ModelFailure("The model server closed the connection in the middle of an answer.", {
      retryable: true,
    });
  return answer.response();
}

function bodyOf(
  name: string,
  { baseUrl }: ChatCompletionsOptions,
  request: GenerateRequest,
): object {
  const {
    temperature,
    topP,
    topK: _topK,
    maxOutputTokens,
    stopSequences,
    version,
    apiKey: _apiKey,
    ...others
  } = (request.config ?? {}) as Readonly<Record<string, unknown>>;
  const tools = (request.tools ?? []).map(toChatTool);
  // OpenAI rejects the old name for newer models; other servers may not know the new one.
  const lengthName = baseUrl === OPENAI_URL ? "max_completion_tokens" : "max_tokens";
  return {
    ...others,
    model: version ?? name,
    messages: toChatMessages(request.messages),
    ...(tools.length > 0 && { tools }),
    temperature,
    top_p: topP,
    stop: stopSequences,
    [lengthName]: maxOutputTokens,
    stream: true,
    stream_options: { include_usage: true },
  };
}

async function post(
  { baseUrl, apiKey, headers }: ChatCompletionsOptions,
  body: object,
  signal: AbortSignal | undefined,
): Promise<Response> {
  const response = await fetch(`${baseUrl}/chat/completions`, {
    method: "POST",
    headers: {
      ...headers,
      "content-type": "application/json",
      accept: "text/event-stream, application/json",
      ...(apiKey !== undefined && { authorization: `Bearer ${apiKey}` }),
    },
    body: JSON.stringify(body),
    // SECURITY: the key and the conversation are sent only to the configured server. Guarded by
    // chat-completions.test.ts.
    redirect: "manual",
    ...(signal !== undefined && { signal }),
  });
  if (response.ok) return response;
  const text = await readText(response);
  const reason = reasonIn(text);
  throw new ModelFailure(
    `The model server answered ${response.status}${reason === "" ? "" : `: ${reason}`}`,
    {
      retryable: isPassingHttpStatus(response.status),
      retryAfterMs: parseRetryAfter(response.headers.get("retry-after")),
    },
  );
}

function reasonIn(text: string): string {
  try {
    const { error, message } = JSON.parse(text) as {
      error?: { message?: unknown } | string;
      message?: unknown;
    };
    const reason = typeof error === "object" ? error.message : (error ?? message);
    return typeof reason === "string" ? reason : "";
  } catch {
    return text.startsWith("<") ? "" : text;
  }
}

/** At most the length of an error message; the rest is not read. */
async function readText(response: Response): Promise<string> {
  let text = "";
  for await (const piece of decoded(response)) {
    text += piece;
    if (text.length > MAX_ERROR_BYTES) break;
  }
  return text;
}

async function readJson(response: Response): Promise<unknown> {
  const pieces: string[] = [];
  let length = 0;
  for await (const piece of decoded(response)) {
    pieces.push(piece);
    length += piece.length;
    if (length > MAX_LINE_LENGTH) throw unreadable();
  }
  try {
    return JSON.parse(pieces.join("")) as unknown;
  } catch (error) {
    throw unreadable(error);
  }
}

/** Whether the server has reported that the answer is complete. */
async function readPieces(response: Response, take: (piece: unknown) => void): Promise<boolean> {
  for await (const line of lines(response)) {
    if (!line.startsWith("data:")) continue;
    const data = line.slice(5).trim();
    if (data === "[DONE]") return true;
    let piece: unknown;
    try {
      piece = JSON.parse(data);
    } catch (error) {
      throw unreadable(error);
    }
    take(piece);
  }
  return false;
}

async function* lines(response: Response): AsyncGenerator<string, void, undefined> {
  let begun: string[] = [];
  let length = 0;
  for await (const piece of decoded(response)) {
    const [first = "", ...others] = piece.split(/\r\n|\n|\r/);
    begun.push(first);
    length += first.length;
    if (length > MAX_LINE_LENGTH) throw unreadable();
    for (const other of others) {
      yield begun.join("");
      begun = [other];
      length = other.length;
    }
  }
}

async function* decoded({ body }: Response): AsyncGenerator<string, void, undefined> {
  if (body === null) return;
  const decoder = new TextDecoder();
  for await (const bytes of body) yield decoder.decode(bytes as Uint8Array, { stream: true });
}

function unreadable(cause?: unknown): ModelFailure {
  return new ModelFailure("The model server sent an answer that cannot be read.", {
    retryable: true,
    cause,
  });
}
