/** Renders an agent's template into the messages that a model gets. */
import { randomUUID } from "node:crypto";
import { Dotprompt } from "dotprompt";
import type { Message, Part } from "dotprompt";
import type { AgentDefinition } from "./agent-definition.ts";

/** Renders with made-up input, which finds mistakes in the template before anyone runs the agent. */
export async function checkTemplate({ template }: AgentDefinition): Promise<void> {
  const render = await new Dotprompt().compile({ template });
  await render({ input: {} });
}

export interface PromptInput {
  readonly task: string | undefined;
  readonly values: Readonly<Record<string, unknown>>;
}

/**
 * The messages of a run. The task is `{{userInput}}`; where a template does not use it, it comes as
 * a message after the others.
 *
 * SECURITY: dotprompt marks roles inside the rendered text, and input that contains such a mark
 * would become a message of another role, for example of the system. Marks in input are replaced
 * while the template is rendered, and put back as plain text. Guarded by render-prompt.test.ts.
 */
export async function renderPrompt(
  { template }: AgentDefinition,
  { task, values }: PromptInput,
): Promise<Message[]> {
  const stand = `mark-${randomUUID()}`;
  const hide = (text: string): string => text.replaceAll(MARK, stand);
  const show = (text: string): string => text.replaceAll(stand, MARK);
  const render = await new Dotprompt().compile({ template });
  const input = mapStrings({ ...values, ...(task !== undefined && { userInput: task }) }, hide);
  const { messages } = await render({ input });
  const shown = messages.map(({ role, content }) => ({
    role,
    content: content.map((part) => (part.text === undefined ? part : { text: show(part.text) })),
  }));
  const usesTask = /\{\{[^}]*\buserInput\b/.test(template);
  const given: Message[] =
    task === undefined || usesTask ? [] : [{ role: "user", content: [{ text: task }] }];
  return oneSystemMessage([...withSystemRole(template, shown), ...given]);
}

const MARK = "<<<dotprompt:";

function mapStrings(value: unknown, change: (text: string) => string): unknown {
  if (typeof value === "string") return change(value);
  if (Array.isArray(value)) return value.map((item) => mapStrings(item, change));
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(
    Object.entries(value).map(([name, item]) => [change(name), mapStrings(item, change)]),
  );
}

/**
 * Instructions above `{{role "user"}}` are the author's words and become the system message.
 *
 * SECURITY: only where no input is part of them, or a caller's words would get the author's weight.
 * Guarded by render-prompt.test.ts.
 */
function withSystemRole(template: string, messages: readonly Message[]): readonly Message[] {
  const [instructions = ""] = template.split(/\{\{~?\s*role\b/, 1);
  const isPlain = instructions.trim() !== "" && !instructions.includes("{{");
  const [first, second, ...rest] = messages;
  if (!isPlain || first?.role !== "user" || second?.role !== "user") return messages;
  return [{ ...first, role: "system" }, second, ...rest];
}

/** Providers take one system message, at the beginning. Empty messages are refused by some. */
function oneSystemMessage(messages: readonly Message[]): Message[] {
  const filled = messages.filter(({ content }) => content.some((part) => !isBlank(part)));
  const system = filled.filter(({ role }) => role === "system").flatMap(({ content }) => content);
  const others = filled.filter(({ role }) => role !== "system");
  return system.length === 0 ? others : [{ role: "system", content: system }, ...others];
}

function isBlank(part: Part): boolean {
  return part.text !== undefined && part.text.trim() === "";
}
