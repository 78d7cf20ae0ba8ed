/** A model that follows a script, behind a real HTTP server with the APIs of two vendors. */
import { once } from "node:events";
import { createServer } from "node:http";
import type { IncomingMessage, Server, ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { json } from "node:stream/consumers";
import { chatCompletions } from "./chat-completions.ts";
import { messages } from "./messages.ts";
import { responses } from "./responses.ts";
import { sendJson, type ToolAnswer, type ToolRequest, type WireFormat } from "./wire-format.ts";

export type { ToolRequest } from "./wire-format.ts";

const formats: readonly WireFormat[] = [responses, chatCompletions, messages];

/** Its answers only depend on the tool results. */
export class ScriptedModel implements AsyncDisposable {
  /** The tool results, as the model sees them. */
  answers: readonly ToolAnswer[] = [];
  /** The tools that the last conversation offered. */
  toolNames: readonly string[] = [];
  /** All requests, as they came. */
  readonly requests: unknown[] = [];
  readonly #server: Server;
  readonly #calls: readonly ToolRequest[];
  readonly #refusesAfter: number;

  private constructor(calls: readonly ToolRequest[], refusesAfter: number) {
    this.#calls = calls;
    this.#refusesAfter = refusesAfter;
    this.#server = createServer((request, response) => void this.#serve(request, response));
  }

  /** Calls these tools one after the other, and refuses to continue after a limit. */
  static async start(
    calls: readonly ToolRequest[],
    refusesAfter = Number.POSITIVE_INFINITY,
  ): Promise<ScriptedModel> {
    const model = new ScriptedModel(calls, refusesAfter);
    model.#server.listen(0, "127.0.0.1");
    await once(model.#server, "listening");
    return model;
  }

  /** Without a path. */
  get origin(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  get environment(): Readonly<Record<string, string>> {
    return {
      OPENAI_BASE_URL: `${this.origin}/v1`,
      OPENAI_API_KEY: "of-nobody",
      ANTHROPIC_BASE_URL: this.origin,
      ANTHROPIC_API_KEY: "of-nobody",
      // The Python SDK would otherwise report runs to its vendor.
      OPENAI_AGENTS_DISABLE_TRACING: "1",
    };
  }

  get toolOutputs(): readonly string[] {
    return this.answers.map(({ output }) => output);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#server.closeAllConnections();
    this.#server.close();
    await once(this.#server, "close");
  }

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const body = (await json(request)) as never;
    const path = request.url?.split("?")[0];
    const format = formats.find((one) => one.path === path);
    if (format === undefined) {
      sendJson(response, 404, { error: { message: `no route ${request.url}` } });
      return;
    }
    this.requests.push(body);
    const isContinued = format.isContinued?.(body) === true;
    this.answers = [...(isContinued ? this.answers : []), ...format.answersOf(body)];
    if (!isContinued) this.toolNames = format.toolNamesOf(body);
    const index = this.answers.length;
    if (index >= this.#refusesAfter) {
      sendJson(response, 400, { error: { type: "refused", message: "not today" } });
      return;
    }
    const text = `I saw: ${this.answers.at(-1)?.output}`;
    await format.send(response, { index, call: this.#calls[index], text }, body);
  }
}
