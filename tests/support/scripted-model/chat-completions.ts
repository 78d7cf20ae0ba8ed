/** OpenAI's chat-completions API, streamed or complete, as requested. */
import { answerChat } from "../../../packages/agents/src/testing/model-server.ts";
import type { WireFormat } from "./wire-format.ts";

interface Body {
  readonly stream?: boolean;
  readonly tools?: readonly { readonly function: { readonly name: string } }[];
  readonly messages: readonly { readonly role: string; readonly content: unknown }[];
}

export const chatCompletions: WireFormat = {
  path: "/v1/chat/completions",
  answersOf: ({ messages }: Body) =>
    messages
      .filter(({ role }) => role === "tool")
      .map(({ content }) => ({
        output: typeof content === "string" ? content : JSON.stringify(content),
      })),
  toolNamesOf: ({ tools = [] }: Body) => tools.map(({ function: { name } }) => name),
  send: async (response, { index, call, text }, { stream }: Body) => {
    const unstreamed = stream !== true;
    await answerChat(
      response,
      call === undefined
        ? { text, unstreamed }
        : {
            calls: [{ id: `call_${index}`, name: call.name, arguments: call.input }],
            pieceLength: 65_536,
            unstreamed,
          },
    );
  },
};
