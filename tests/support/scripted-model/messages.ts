/** Anthropic's Messages API, streamed or complete, as requested. */
import { jsonText, sendEvents, sendJson, type Turn, type WireFormat } from "./wire-format.ts";

interface Block {
  readonly type: string;
  readonly content?: unknown;
  readonly is_error?: boolean;
}

interface Body {
  readonly stream?: boolean;
  readonly thread?: { readonly type: string };
  readonly tools?: readonly { readonly name: string }[];
  readonly messages: readonly { readonly role: string; readonly content: string | Block[] }[];
}

export const messages: WireFormat = {
  path: "/v1/messages",
  answersOf: ({ messages: all }: Body) =>
    all
      .flatMap(({ content }) => (typeof content === "string" ? [] : content))
      .filter(({ type }) => type === "tool_result")
      .map(({ content, is_error: isError }) => ({ output: textOf(content), isError })),
  isContinued: ({ thread }: Body) => thread?.type === "continue",
  toolNamesOf: ({ tools = [] }: Body) => tools.map(({ name }) => name),
  send: (response, turn, { stream }: Body) => {
    const block = blockOf(turn);
    const message = {
      id: `msg_${turn.index}`,
      type: "message",
      role: "assistant",
      model: "scripted",
      stop_reason: turn.call === undefined ? "end_turn" : "tool_use",
      stop_sequence: null,
      usage: { input_tokens: 1, output_tokens: 1 },
    };
    if (stream !== true) {
      sendJson(response, 200, { ...message, content: [block] });
      return;
    }
    const { stop_reason, stop_sequence, usage } = message;
    const isText = turn.call === undefined;
    sendEvents(response, [
      { type: "message_start", message: { ...message, stop_reason: null, content: [] } },
      {
        type: "content_block_start",
        index: 0,
        content_block: isText ? { type: "text", text: "" } : { ...block, input: {} },
      },
      {
        type: "content_block_delta",
        index: 0,
        delta: isText
          ? { type: "text_delta", text: turn.text }
          : { type: "input_json_delta", partial_json: jsonText(turn.call?.input ?? {}) },
      },
      { type: "content_block_stop", index: 0 },
      { type: "message_delta", delta: { stop_reason, stop_sequence }, usage },
      { type: "message_stop" },
    ] as readonly { type: string }[]);
  },
};

function blockOf({ index, call, text }: Turn): object {
  if (call === undefined) return { type: "text", text };
  return { type: "tool_use", id: `toolu_${index}`, name: call.name, input: call.input };
}

function textOf(content: unknown): string {
  if (typeof content === "string") return content;
  const blocks = (content ?? []) as readonly { readonly text?: string }[];
  return blocks.map(({ text }) => text ?? "").join("");
}
