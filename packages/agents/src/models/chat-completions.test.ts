/** Requests to a chat-completions server, and parsing of complete and broken responses. */
import type { GenerateRequest } from "genkit/model";
import { afterAll, beforeAll, expect, test } from "vitest";
import { ModelServer } from "../testing/model-server.ts";
import type { ScriptedTurn } from "../testing/model-server.ts";
import { askChatModel } from "./chat-completions.ts";
import type { ModelFailure } from "./model-failure.ts";

let server: ModelServer;
beforeAll(async () => (server = await ModelServer.start()));
afterAll(async () => await server[Symbol.asyncDispose]());

const hello: GenerateRequest = { messages: [{ role: "user", content: [{ text: "Hello" }] }] };

async function ask(turn: ScriptedTurn, request = hello, signal?: AbortSignal) {
  server.play([turn]);
  const pieces: string[] = [];
  const options = { baseUrl: server.url, apiKey: "sk-secret" };
  const response = await askChatModel("tiny", options, request, {
    sendChunk: ({ content }) => pieces.push(...content.map(({ text }) => text ?? "")),
    abortSignal: signal,
  });
  return { ...response, pieces };
}

async function failure(turn: ScriptedTurn, signal?: AbortSignal): Promise<ModelFailure> {
  return await ask(turn, hello, signal).then(
    () => expect.unreachable("it must fail"),
    (error: unknown) => error as ModelFailure,
  );
}

test("text is streamed as it arrives, and usage is counted", async () => {
  const { message, pieces, usage, finishReason } = await ask({ text: "Good morning, world" });
  expect(message?.content).toEqual([{ text: "Good morning, world" }]);
  expect(pieces.filter((piece) => piece !== "")).toEqual(["Good mor", "ning, wo", "rld"]);
  expect(usage).toMatchObject({ inputTokens: 10, outputTokens: 5 });
  expect(finishReason).toBe("stop");
});

test("the request has tools with their descriptions, settings, including zero, and the key", async () => {
  await ask(
    { text: "" },
    {
      ...hello,
      config: { temperature: 0, maxOutputTokens: 7, stopSequences: ["x"], seed: 1 },
      tools: [{ name: "add", description: "Adds.", inputSchema: { type: "object" } }],
    },
  );
  const [request] = server.requests;
  expect(request?.headers.authorization).toBe("Bearer sk-secret");
  expect(request?.body).toMatchObject({
    model: "tiny",
    stream: true,
    temperature: 0,
    max_tokens: 7,
    stop: ["x"],
    seed: 1,
    tools: [
      {
        type: "function",
        function: { name: "add", description: "Adds.", parameters: { type: "object" } },
      },
    ],
  });
});

test("text and tool calls of one turn are both kept, in answers and in history", async () => {
  const { message } = await ask({
    text: "Let me see.",
    calls: [{ name: "add", arguments: { a: 1 } }],
  });
  expect(message?.content).toEqual([
    { text: "Let me see." },
    { toolRequest: { name: "add", ref: "call_0", input: { a: 1 } } },
  ]);
  const result = { toolResponse: { name: "add", ref: "call_0", output: { sum: 2 } } };
  await ask(
    { text: "" },
    {
      messages: [...hello.messages, message!, { role: "tool", content: [result] }],
    },
  );
  expect(server.requests[0]?.body.messages.slice(1)).toEqual([
    {
      role: "assistant",
      content: "Let me see.",
      tool_calls: [
        { id: "call_0", type: "function", function: { name: "add", arguments: '{"a":1}' } },
      ],
    },
    { role: "tool", tool_call_id: "call_0", content: '{"sum":2}' },
  ]);
});

test("a server that does not stream is supported", async () => {
  const { message } = await ask({
    unstreamed: true,
    text: "Hi",
    calls: [{ name: "a", arguments: {} }],
  });
  expect(message?.content).toHaveLength(2);
});

test("malformed arguments are marked and do not break the turn", async () => {
  for (const text of ['{"a": ', "not json", "{'a': 1}"]) {
    const { message } = await ask({ calls: [{ name: "add", arguments: text }] });
    expect(message?.content).toEqual([
      {
        toolRequest: { name: "add", ref: "call_0", input: {} },
        metadata: { malformedArguments: expect.stringMatching(/JSON|Expected/) as string },
      },
    ]);
  }
});

test("calls without an id, or with a repeated id, get a new one", async () => {
  const { message } = await ask({
    calls: [
      { name: "a", arguments: {}, id: "same" },
      { name: "b", arguments: {}, id: "same" },
      { name: "c", arguments: {}, id: "" },
    ],
  });
  const refs = message?.content.map(({ toolRequest }) => toolRequest?.ref);
  expect(new Set(refs).size).toBe(3);
  expect(refs).not.toContain("");
});

test("ten megabytes of arguments arrive complete, in time proportional to their length", async () => {
  const content = "x".repeat(10_000_000);
  const { message } = await ask({
    calls: [{ name: "write", arguments: { content } }],
    pieceLength: 1000,
  });
  const input = message?.content[0]?.toolRequest?.input as { content: string };
  expect(input.content.length).toBe(content.length);
});

test("a model that never stops is stopped", async () => {
  const endless = await failure({
    text: "and so on ".repeat(1000),
    endless: true,
    pieceLength: 5000,
  });
  expect(endless).toMatchObject({ retryable: false, isTooLong: true });
  const calls = Array.from({ length: 200 }, () => ({ name: "a", arguments: {} }));
  expect(await failure({ calls })).toMatchObject({ isTooLong: true });
  const long = { calls: [{ name: "a", arguments: "y".repeat(17_000_000) }], pieceLength: 100_000 };
  expect(await failure(long)).toMatchObject({ isTooLong: true });
});

test("errors contain the server's message, and whether a retry can help", async () => {
  expect(
    await failure({ status: 429, headers: { "retry-after": "7" }, error: "slow down" }),
  ).toMatchObject({
    retryable: true,
    retryAfterMs: 7000,
    message: "The model server answered 429: slow down",
  });
  for (const status of [500, 502, 503, 529])
    expect((await failure({ status })).retryable).toBe(true);
  for (const status of [400, 401, 404, 422])
    expect((await failure({ status })).retryable).toBe(false);
});

test("a key that the server repeats is not revealed", async () => {
  const { message } = await failure({ status: 401, error: "wrong key sk-secret given" });
  expect(message).toBe("The model server answered 401: wrong key *** given");
  const raw = `data: ${JSON.stringify({ error: { message: "wrong key sk-secret" } })}\n\n`;
  expect((await failure({ raw })).message).toBe("The model server reported: wrong key ***");
  // A key that truncation would cut in half.
  const error = `${"x".repeat(466)} sk-secret and more`;
  expect((await failure({ status: 401, error })).message).not.toContain("sk-");
});

test("malformed pieces do not fail the turn, and counts are whole numbers", async () => {
  const pieces = [
    null,
    5,
    { choices: null },
    { choices: [null] },
    { choices: [{ delta: { content: { text: "no" }, tool_calls: { a: 1 } } }] },
    { choices: [{ delta: { content: "yes", reasoning_content: 7 } }] },
    { usage: { prompt_tokens: 1.5, completion_tokens: "7" } },
    { choices: [{ delta: null, finish_reason: "stop" }], usage: 9 },
  ];
  const raw = pieces.map((piece) => `data: ${JSON.stringify(piece)}\n\n`).join("");
  const { message, usage } = await ask({ raw: `${raw}data: [DONE]\n\n` });
  expect(message?.content).toEqual([{ text: "yes" }]);
  expect(usage).toMatchObject({ inputTokens: 1, outputTokens: 0 });
});

test("arguments with endless nesting are malformed, in any form", async () => {
  const deep = "[".repeat(20_000) + "]".repeat(20_000);
  const asText = await ask({ calls: [{ name: "a", arguments: deep }] });
  const call = `{"choices":[{"delta":{"tool_calls":[{"function":{"name":"a","arguments":${deep}}}]}}]}`;
  const asObject = await ask({ raw: `data: ${call}\n\ndata: [DONE]\n\n` });
  for (const { message } of [asText, asObject])
    expect(message?.content).toMatchObject([
      {
        toolRequest: { name: "a", input: {} },
        metadata: { malformedArguments: "nested more than 200 levels deep" },
      },
    ]);
});

test("arguments with very many values are malformed, and long ones are not", async () => {
  const values = (count: number): string => `{"list":[${"1,".repeat(count)}1]}`;
  const long = JSON.stringify({ text: "[1,".repeat(100_000) });
  const { message } = await ask({
    calls: [values(60_000), values(40_000), long].map((given) => ({ name: "a", arguments: given })),
  });
  expect(message?.content.map(({ metadata }) => metadata)).toEqual([
    { malformedArguments: "made of more than 50000 values" },
    undefined,
    undefined,
  ]);
});

test("a redirect is refused, so the key is not sent elsewhere", async () => {
  await using other = await ModelServer.start([{ text: "stolen" }]);
  const headers = { location: `${other.url}/chat/completions` };
  for (const status of [301, 302, 307, 308])
    expect((await failure({ status, headers })).message).toContain(String(status));
  expect(other.requests).toEqual([]);
});

test("a response that is truncated, reset or unreadable can be retried", async () => {
  expect(await failure({ text: "half an", reset: true })).toBeInstanceOf(Error);
  expect(
    (await failure({ raw: 'data: {"choices":[{"delta":{"content":"half"}}]}\n\n' })).retryable,
  ).toBe(true);
  expect((await failure({ raw: "data: {nonsense\n\n" })).retryable).toBe(true);
  expect((await failure({ raw: 'data: {"error":{"message":"overloaded"}}\n\n' })).message).toBe(
    "The model server reported: overloaded",
  );
});

test("an abort ends the request at once", async () => {
  const stop = new AbortController();
  const stopped = failure({ text: "wait", hang: true }, stop.signal);
  setTimeout(() => stop.abort(new Error("enough")), 20);
  expect((await stopped).message).toBe("enough");
});
