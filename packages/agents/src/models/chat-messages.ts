/** Translates Genkit's messages and tools into those of the chat-completions API. */
import type { MessageData, Part, ToolDefinition } from "genkit/model";

export interface ChatMessage {
  readonly role: "system" | "user" | "assistant" | "tool";
  readonly content: string | readonly object[] | null;
  readonly tool_calls?: readonly object[];
  readonly tool_call_id?: string;
}

export function toChatMessages(messages: readonly MessageData[]): ChatMessage[] {
  return messages.flatMap(({ role, content }): ChatMessage[] => {
    switch (role) {
      case "system":
        return [{ role, content: textOf(content) }];
      case "user":
        return [{ role, content: userContent(content) }];
      case "model":
        return [assistantMessage(content)];
      case "tool":
        return content.flatMap(toolMessage);
    }
  });
}

export function toChatTool({ name, description, inputSchema }: ToolDefinition): object {
  return {
    type: "function",
    function: {
      name,
      description,
      parameters: inputSchema ?? { type: "object", properties: {} },
    },
  };
}

function textOf(content: readonly Part[]): string {
  return content.map(({ text = "" }) => text).join("");
}

function userContent(content: readonly Part[]): string | object[] {
  if (content.every(({ media }) => media === undefined)) return textOf(content);
  return content.map(({ text = "", media }) =>
    media === undefined
      ? { type: "text", text }
      : { type: "image_url", image_url: { url: media.url } },
  );
}

function assistantMessage(content: readonly Part[]): ChatMessage {
  const calls = content.flatMap(({ toolRequest }) =>
    toolRequest === undefined
      ? []
      : [
          {
            id: toolRequest.ref ?? "",
            type: "function",
            function: {
              name: toolRequest.name,
              arguments: JSON.stringify(toolRequest.input ?? {}),
            },
          },
        ],
  );
  const text = textOf(content);
  return {
    role: "assistant",
    content: text === "" ? null : text,
    ...(calls.length > 0 && { tool_calls: calls }),
  };
}

function toolMessage({ toolResponse }: Part): ChatMessage[] {
  if (toolResponse === undefined) return [];
  const { output, ref = "" } = toolResponse;
  const content = typeof output === "string" ? output : JSON.stringify(output ?? null);
  return [{ role: "tool", tool_call_id: ref, content }];
}
