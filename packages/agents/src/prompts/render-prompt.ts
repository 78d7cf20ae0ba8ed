/** Renders an agent's template into the messages for a model. */
import { Dotprompt } from "dotprompt";
import type { Message, Part } from "dotprompt";
import type { AgentDefinition } from "./agent-definition.ts";

/** Renders with sample input, which finds mistakes in the template before anyone runs the agent. */
export async function checkTemplate({ template }: AgentDefinition): Promise<void> {
  const render = await new Dotprompt().compile({ template });
  await render({ input: {} });
}

export interface PromptInput {
  readonly task: string | undefined;
  readonly values: Readonly<Record<string, unknown>>;
}

/**
 * The messages of a run. The task is `{{userInput}}`; if a template does not use it, it is appended
 * as a separate message.
 *
 * SECURITY: dotprompt marks roles inside the rendered text, and input that contains such a mark
 * would become a message of another role, for example the system's. A mark may also be composed of
 * two values, or of a value and the text around it, as in `<<<{{userInput}}>>>`. So values are
 * rendered without the characters that every mark needs: others replace them meanwhile. Guarded by
 * render-prompt.test.ts.
 */
export async function renderPrompt(
  { template }: AgentDefinition,
  { task, values }: PromptInput,
): Promise<Message[]> {
  const given = { ...values, ...(task !== undefined && { userInput: task }) };
  const { hide, show } = standIns(`${template}${JSON.stringify(given)}`);
  const render = await new Dotprompt().compile({ template });
  const { messages } = await render({ input: mapStrings(given, hide) });
  const shown = messages.map(({ role, content }) => ({
    role,
    content: mapStrings(content, show) as Part[],
  }));
  const usesTask = /\{\{[^}]*\buserInput\b/.test(template);
  const added: Message[] =
    task === undefined || usesTask ? [] : [{ role: "user", content: [{ text: task }] }];
  return oneSystemMessage([...withSystemRole(template, shown), ...added]);
}

/** Every mark has the form `<<<dotprompt:…>>>`. */
const OF_MARKS = ["<", ":", ">"] as const;
const PRIVATE_USE = { first: 0xf0000, last: 0xffffd };

/** Replaces the characters of marks by ones that `text` does not contain, to tell them apart. */
function standIns(text: string): Record<"hide" | "show", (text: string) => string> {
  const used = new Set(text.match(/[\u{f0000}-\u{ffffd}]/gu));
  const pairs: (readonly [string, string])[] = [];
  for (let code = PRIVATE_USE.first; pairs.length < OF_MARKS.length; code++) {
    if (code > PRIVATE_USE.last) throw new Error("the input uses every private character");
    const stand = String.fromCodePoint(code);
    if (!used.has(stand)) pairs.push([OF_MARKS[pairs.length] ?? "", stand]);
  }
  const replaced = (given: string, from: 0 | 1, to: 0 | 1): string =>
    pairs.reduce((result, pair) => result.replaceAll(pair[from], pair[to]), given);
  return { hide: (given) => replaced(given, 0, 1), show: (given) => replaced(given, 1, 0) };
}

function mapStrings(value: unknown, change: (text: string) => string): unknown {
  if (typeof value === "string") return change(value);
  if (Array.isArray(value)) return value.map((item) => mapStrings(item, change));
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(
    Object.entries(value).map(([name, item]) => [change(name), mapStrings(item, change)]),
  );
}

/**
 * Instructions above `{{role "user"}}` are the author's and become the system message.
 *
 * SECURITY: only if they contain no input, or a caller's words would get the author's authority.
 * Guarded by render-prompt.test.ts.
 */
function withSystemRole(template: string, messages: readonly Message[]): readonly Message[] {
  const [instructions = ""] = template.split(/\{\{~?\s*role\b/, 1);
  const isPlain = instructions.trim() !== "" && !instructions.includes("{{");
  const [first, second, ...rest] = messages;
  if (!isPlain || first?.role !== "user" || second?.role !== "user") return messages;
  return [{ ...first, role: "system" }, second, ...rest];
}

/** Providers accept one system message, at the beginning. Some reject empty messages. */
function oneSystemMessage(messages: readonly Message[]): Message[] {
  const filled = messages.filter(({ content }) => content.some((part) => !isBlank(part)));
  const system = filled.filter(({ role }) => role === "system").flatMap(({ content }) => content);
  const others = filled.filter(({ role }) => role !== "system");
  return system.length === 0 ? others : [{ role: "system", content: system }, ...others];
}

function isBlank(part: Part): boolean {
  return part.text !== undefined && part.text.trim() === "";
}
