/** A scripted model behind a real HTTP server that speaks OpenAI's chat-completions API. */
import { once } from "node:events";
import { createServer } from "node:http";
import type { IncomingMessage, Server, ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { setTimeout } from "node:timers/promises";

export interface ScriptedCall {
  readonly name: string;
  /** A string is sent unchanged, so that it can be malformed. */
  readonly arguments: object | string;
  readonly id?: string;
}

/** What the model does when it gets a request. */
export interface ScriptedTurn {
  readonly text?: string;
  readonly calls?: readonly ScriptedCall[];
  readonly usage?: { readonly input: number; readonly output: number };
  readonly finishReason?: string;
  /** Characters in each chunk of the stream; default 8. */
  readonly pieceLength?: number;
  /** A pause after each piece. */
  readonly pieceDelayMs?: number;
  /** Answers with this status and an error instead. */
  readonly status?: number;
  readonly headers?: Readonly<Record<string, string>>;
  readonly error?: string;
  /** Sends its text and then nothing more, without an end. */
  readonly hang?: boolean;
  /** Breaks the connection after its text. */
  readonly reset?: boolean;
  /** Repeats the text forever. */
  readonly endless?: boolean;
  /** Sends these bytes as the response, whatever they are. */
  readonly raw?: string;
  /** Sends the complete response at once, as servers do that cannot stream. */
  readonly unstreamed?: boolean;
}

export interface ChatRequest {
  readonly model: string;
  readonly messages: readonly {
    readonly role: string;
    readonly content: string | null;
    readonly tool_calls?: readonly {
      readonly id: string;
      readonly function: { readonly name: string; readonly arguments: string };
    }[];
    readonly tool_call_id?: string;
  }[];
  readonly tools?: readonly {
    readonly function: {
      readonly name: string;
      readonly description?: string;
      readonly parameters: object;
    };
  }[];
  readonly [field: string]: unknown;
}

export interface SeenRequest {
  readonly body: ChatRequest;
  readonly headers: IncomingMessage["headers"];
  readonly atMs: number;
  /** Whether the response has ended, or its reader has left. */
  readonly isClosed: () => boolean;
}

type Script = readonly ScriptedTurn[] | ((request: ChatRequest, index: number) => ScriptedTurn);

const USAGE = { input: 10, output: 5 };

export class ModelServer implements AsyncDisposable {
  readonly requests: SeenRequest[] = [];
  readonly #server: Server;
  #script: Script = [];
  #turn = 0;

  private constructor() {
    this.#server = createServer((request, response) => void this.#serve(request, response));
  }

  static async start(script: Script = []): Promise<ModelServer> {
    const server = new ModelServer();
    server.play(script);
    server.#server.listen(0, "127.0.0.1");
    await once(server.#server, "listening");
    return server;
  }

  /** The value for `OPENAI_BASE_URL`. */
  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}/v1`;
  }

  /**
   * The turns to come, in order; the last one is repeated. A function is called for each request.
   */
  play(script: Script): void {
    this.#script = script;
    this.#turn = 0;
    this.requests.length = 0;
  }

  /** The last message of the last request. */
  get lastMessage(): ChatRequest["messages"][number] | undefined {
    return this.requests.at(-1)?.body.messages.at(-1);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#server.closeAllConnections();
    this.#server.close();
    await once(this.#server, "close");
  }

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    let text = "";
    for await (const bytes of request) text += String(bytes);
    if (request.url !== "/v1/chat/completions") {
      response.writeHead(404).end();
      return;
    }
    const body = JSON.parse(text) as ChatRequest;
    const { headers } = request;
    const isClosed = (): boolean => response.closed;
    this.requests.push({ body, headers, atMs: performance.now(), isClosed });
    const turn = this.#next(body);
    response.on("error", () => undefined);
    await answerChat(response, turn);
  }

  #next(body: ChatRequest): ScriptedTurn {
    const index = this.#turn++;
    if (typeof this.#script === "function") return this.#script(body, index);
    return this.#script[index] ?? this.#script.at(-1) ?? { text: "" };
  }
}

/** Answers a request for a chat completion. */
export async function answerChat(response: ServerResponse, turn: ScriptedTurn): Promise<void> {
  if (turn.status !== undefined) answerError(response, turn);
  else if (turn.unstreamed === true) answerWhole(response, turn);
  else await answerStream(response, turn);
}

function answerError(
  response: ServerResponse,
  { status = 500, headers, error }: ScriptedTurn,
): void {
  response.writeHead(status, { "content-type": "application/json", ...headers });
  response.end(JSON.stringify({ error: { message: error ?? `status ${status}` } }));
}

function answerWhole(response: ServerResponse, turn: ScriptedTurn): void {
  response.writeHead(200, { "content-type": "application/json" });
  const message = {
    role: "assistant",
    content: turn.text ?? null,
    ...(turn.calls !== undefined && { tool_calls: turn.calls.map(wireCall) }),
  };
  const choices = [{ index: 0, message, finish_reason: finishOf(turn) }];
  response.end(JSON.stringify({ choices, usage: wireUsage(turn) }));
}

async function answerStream(response: ServerResponse, turn: ScriptedTurn): Promise<void> {
  response.writeHead(200, { "content-type": "text/event-stream", ...turn.headers });
  if (turn.raw !== undefined) {
    response.end(turn.raw);
    return;
  }
  const send = async (piece: object): Promise<void> => {
    if (response.destroyed || response.write(`data: ${JSON.stringify(piece)}\n\n`)) return;
    const { promise, resolve } = Promise.withResolvers<void>();
    response.once("drain", resolve).once("close", resolve);
    await promise;
    response.off("drain", resolve).off("close", resolve);
  };
  const say = async (delta: object, finish: string | null = null): Promise<void> =>
    await send({ choices: [{ index: 0, delta, finish_reason: finish }] });
  response.flushHeaders();
  do {
    for (const piece of pieces(turn.text ?? "", turn.pieceLength)) {
      await say({ content: piece });
      if (turn.pieceDelayMs !== undefined) await setTimeout(turn.pieceDelayMs);
    }
  } while (turn.endless === true && !response.destroyed);
  for (const [index, call] of (turn.calls ?? []).entries()) {
    const { id, function: called } = wireCall(call, index);
    await say({
      tool_calls: [{ index, id, type: "function", function: { ...called, arguments: "" } }],
    });
    for (const piece of pieces(called.arguments, turn.pieceLength))
      await say({ tool_calls: [{ index, function: { arguments: piece } }] });
  }
  if (turn.hang === true) return;
  if (turn.reset === true) {
    response.socket?.resetAndDestroy();
    return;
  }
  await say({}, finishOf(turn));
  await send({ choices: [], usage: wireUsage(turn) });
  response.end("data: [DONE]\n\n");
}

function wireCall({ name, arguments: given, id }: ScriptedCall, index: number) {
  return {
    id: id ?? `call_${index}`,
    type: "function",
    function: { name, arguments: typeof given === "string" ? given : JSON.stringify(given) },
  };
}

function finishOf({ finishReason, calls = [] }: ScriptedTurn): string {
  return finishReason ?? (calls.length > 0 ? "tool_calls" : "stop");
}

function wireUsage({ usage = USAGE }: ScriptedTurn): object {
  const { input, output } = usage;
  return { prompt_tokens: input, completion_tokens: output, total_tokens: input + output };
}

function* pieces(text: string, length = 8): Generator<string> {
  for (let at = 0; at < text.length; at += length) yield text.slice(at, at + length);
}
