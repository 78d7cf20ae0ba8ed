/** The plugins for Anthropic and Google against servers that speak their wire formats. */
import { once } from "node:events";
import { createServer } from "node:http";
import type { IncomingMessage, Server, ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { AgentFixture, agent } from "../testing/agent-fixture.ts";

type Responder = (body: Readonly<Record<string, unknown>>, response: ServerResponse) => void;

let server: Server;
let url: string;
let respond: Responder;
let seen: { path: string; headers: IncomingMessage["headers"]; body: Record<string, unknown> }[];
let fixture: AgentFixture;
let baseUrlBefore: string | undefined;

beforeAll(async () => {
  server = createServer((request, response) => {
    void (async () => {
      const chunks = await Array.fromAsync(request as AsyncIterable<Buffer>);
      const body = JSON.parse(Buffer.concat(chunks).toString()) as Record<string, unknown>;
      seen.push({ path: request.url ?? "", headers: request.headers, body });
      respond(body, response);
    })();
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  // Anthropic's SDK reads this variable itself.
  baseUrlBefore = process.env["ANTHROPIC_BASE_URL"];
  process.env["ANTHROPIC_BASE_URL"] = url;
  const callers = "agents: [helper]\nconfig: { temperature: 0.5, maxOutputTokens: 99 }";
  fixture = await AgentFixture.start({
    env: { ANTHROPIC_API_KEY: "ant-key", GOOGLE_API_KEY: "goo-key", GOOGLE_GEMINI_BASE_URL: url },
    agents: {
      helper: agent("metadata: { description: Helps. }"),
      claude: agent(callers).replace("openai/tiny", "anthropic/claude-test"),
      gemini: agent(callers).replace("openai/tiny", "googleai/gemini-test"),
    },
  });
});
beforeEach(() => (seen = []));
afterAll(async () => {
  await fixture[Symbol.asyncDispose]();
  server.closeAllConnections();
  server.close();
  if (baseUrlBefore === undefined) delete process.env["ANTHROPIC_BASE_URL"];
  else process.env["ANTHROPIC_BASE_URL"] = baseUrlBefore;
});

function events(
  response: ServerResponse,
  list: readonly Readonly<Record<string, unknown>>[],
): void {
  response.writeHead(200, { "content-type": "text/event-stream" });
  for (const event of list) {
    const name = typeof event["type"] === "string" ? `event: ${event["type"]}\n` : "";
    response.write(`${name}data: ${JSON.stringify(event)}\n\n`);
  }
  response.end();
}

const claudeTurn = (blocks: readonly (readonly Record<string, unknown>[])[], stop: string) => [
  {
    type: "message_start",
    message: {
      id: "m",
      type: "message",
      role: "assistant",
      model: "c",
      content: [],
      stop_reason: null,
      usage: { input_tokens: 3, output_tokens: 1 },
    },
  },
  ...blocks.flat(),
  {
    type: "message_delta",
    delta: { stop_reason: stop, stop_sequence: null },
    usage: { output_tokens: 4 },
  },
  { type: "message_stop" },
];
const claudeText = (index: number, text: string) => [
  { type: "content_block_start", index, content_block: { type: "text", text: "" } },
  { type: "content_block_delta", index, delta: { type: "text_delta", text } },
  { type: "content_block_stop", index },
];
const claudeCall = (index: number, json: string) => [
  {
    type: "content_block_start",
    index,
    content_block: { type: "tool_use", id: "toolu_1", name: "agent_helper", input: {} },
  },
  { type: "content_block_delta", index, delta: { type: "input_json_delta", partial_json: json } },
  { type: "content_block_stop", index },
];

test("anthropic/NAME runs the tool loop with the variables of its SDK", async () => {
  fixture.model.play([{ text: "forty-two" }]);
  respond = (body, response) => {
    const isFirst = (body["messages"] as unknown[]).length === 1;
    const call = claudeCall(1, '{"task":"Say a number"}');
    events(
      response,
      isFirst
        ? claudeTurn([claudeText(0, "Let me ask."), call], "tool_use")
        : claudeTurn([claudeText(0, "It said forty-two.")], "end_turn"),
    );
  };
  const run = await fixture.client.executeAndWait("claude", { task: "Ask" });
  expect(run).toMatchObject({ status: "succeeded", text: "It said forty-two.", steps: 2 });
  expect(run.usage.output_tokens).toBeGreaterThan(0);
  expect(seen[0]).toMatchObject({
    path: "/v1/messages",
    headers: { "x-api-key": "ant-key" },
    body: {
      model: "claude-test",
      max_tokens: 99,
      temperature: 0.5,
      system: [{ type: "text", text: "Work.\n" }],
      tools: [{ name: "agent_helper", description: expect.stringContaining("Helps.") as string }],
    },
  });
  expect(JSON.stringify(seen[1]?.body["messages"])).toContain("forty-two");
  const texts = (await fixture.eventsOf(run.run_id)).filter(({ type }) => type === "text");
  expect(texts).toMatchObject([{ text: "Let me ask." }, { text: "It said forty-two." }]);
});

test("googleai/NAME runs the tool loop with the variables of its SDK", async () => {
  fixture.model.play([{ text: "forty-two" }]);
  const part = (content: object) => ({
    candidates: [{ index: 0, content: { role: "model", parts: [content] }, finishReason: "STOP" }],
    usageMetadata: { promptTokenCount: 3, candidatesTokenCount: 4, totalTokenCount: 7 },
  });
  respond = (body, response) => {
    const isFirst = (body["contents"] as unknown[]).length === 1;
    const call = { functionCall: { name: "agent_helper", args: { task: "Say a number" } } };
    events(response, [part(isFirst ? call : { text: "It said forty-two." })]);
  };
  const run = await fixture.client.executeAndWait("gemini", { task: "Ask" });
  expect(run).toMatchObject({ status: "succeeded", text: "It said forty-two.", steps: 2 });
  expect(seen[0]).toMatchObject({
    path: "/v1beta/models/gemini-test:streamGenerateContent?alt=sse",
    headers: { "x-goog-api-key": "goo-key" },
    body: { generationConfig: { temperature: 0.5, maxOutputTokens: 99 } },
  });
  expect(JSON.stringify(seen[0]?.body["tools"])).toContain("Helps.");
  expect(JSON.stringify(seen[1]?.body["contents"])).toContain("forty-two");
});

test.for(["claude", "gemini"])(
  "%s: a refusal is reported once, an overload is retried",
  async (name) => {
    respond = (_, response) => {
      response.writeHead(400, { "content-type": "application/json" });
      response.end(
        '{"type":"error","error":{"type":"invalid_request_error","message":"bad thing, ant-key, goo-key"}}',
      );
    };
    const refused = await fixture.client.executeAndWait(name, { task: "x" });
    expect(refused.error).toMatchObject({
      code: "MODEL_FAILED",
      message: expect.stringContaining("bad thing, ***, ***") as string,
    });
    expect(seen).toHaveLength(1);
    seen = [];
    respond = (_, response) => {
      response.writeHead(503, { "content-type": "application/json", "retry-after": "0" });
      response.end('{"type":"error","error":{"type":"overloaded_error","message":"busy"}}');
    };
    const busy = await fixture.client.executeAndWait(name, { task: "x" });
    expect(busy.error).toMatchObject({
      code: "MODEL_UNAVAILABLE",
      message: expect.stringMatching(/after 4 attempts.*busy/) as string,
    });
    expect(seen.length).toBeGreaterThanOrEqual(4);
  },
);
