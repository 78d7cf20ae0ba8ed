/** OpenAI's Responses API. */
import { jsonText, sendJson, type Turn, type WireFormat } from "./wire-format.ts";

interface Body {
  readonly tools?: readonly { readonly name?: string; readonly type: string }[];
  readonly input: readonly { readonly type?: string; readonly output?: unknown }[];
}

export const responses: WireFormat = {
  path: "/v1/responses",
  answersOf: ({ input }: Body) =>
    input
      .filter(({ type }) => type?.endsWith("_call_output") === true)
      .map(({ output }) => ({
        output: typeof output === "string" ? output : JSON.stringify(output),
      })),
  toolNamesOf: ({ tools = [] }: Body) => tools.map(({ name, type }) => name ?? type),
  send: (response, turn) =>
    sendJson(response, 200, {
      id: `resp_${turn.index}`,
      object: "response",
      created_at: 0,
      status: "completed",
      model: "scripted",
      parallel_tool_calls: false,
      tool_choice: "auto",
      tools: [],
      output: [{ id: `item_${turn.index}`, status: "completed", ...itemOf(turn) }],
      usage: {
        input_tokens: 1,
        input_tokens_details: { cached_tokens: 0 },
        output_tokens: 1,
        output_tokens_details: { reasoning_tokens: 0 },
        total_tokens: 2,
      },
    }),
};

function itemOf({ index, call, text }: Turn): object {
  if (call === undefined)
    return {
      type: "message",
      role: "assistant",
      content: [{ type: "output_text", text, annotations: [] }],
    };
  return {
    type: "function_call",
    call_id: `call_${index}`,
    name: call.name,
    arguments: jsonText(call.input),
  };
}
