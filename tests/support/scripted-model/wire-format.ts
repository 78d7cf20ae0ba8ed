/** What a scripted model needs to know about its API. */
import type { ServerResponse } from "node:http";

/** A tool that the model calls. */
export interface ToolRequest {
  readonly name: string;
  /** A string is sent unchanged, so it can be malformed. */
  readonly input: object | string;
}

/** What the model says: a call, or its final answer. */
export interface Turn {
  /** How many tool calls were answered before it. */
  readonly index: number;
  readonly call?: ToolRequest | undefined;
  readonly text: string;
}

/** A tool result, as the model sees it. */
export interface ToolAnswer {
  readonly output: string;
  /** Whether it is marked as an error, if the API supports that. */
  readonly isError?: boolean | undefined;
}

export interface WireFormat {
  readonly path: string;
  answersOf(body: never): readonly ToolAnswer[];
  /** Whether the request only contains what is new, and the server remembers the rest. */
  isContinued?(body: never): boolean;
  toolNamesOf(body: never): readonly string[];
  send(response: ServerResponse, turn: Turn, body: never): Promise<void> | void;
}

export function sendJson(response: ServerResponse, status: number, body: object): void {
  response.writeHead(status, { "content-type": "application/json" });
  response.end(JSON.stringify(body));
}

export function sendEvents(response: ServerResponse, events: readonly { type: string }[]): void {
  response.writeHead(200, { "content-type": "text/event-stream" });
  for (const event of events)
    response.write(`event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`);
  response.end();
}

export function jsonText(input: object | string): string {
  return typeof input === "string" ? input : JSON.stringify(input);
}
