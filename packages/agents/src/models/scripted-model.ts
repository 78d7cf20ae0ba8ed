/**
 * The built-in `scripted` model: no language model, but turns that a prompt file spells out. It
 * shows a complete run offline; without a script it plays a short demonstration.
 */
import type { GenerateRequest, GenerateResponseData, MessageData, Part } from "genkit/model";
import { z } from "zod";
import type { ModelCall } from "./chat-completions.ts";
import { ModelFailure } from "./model-failure.ts";

const call = z.strictObject({
  tool: z.string().min(1),
  input: z.record(z.string(), z.unknown()).optional(),
});

const turn = z.union([
  z.string(),
  z.strictObject({
    text: z.string().optional(),
    tool: z.string().min(1).optional(),
    input: z.record(z.string(), z.unknown()).optional(),
    calls: z.array(call).optional(),
  }),
]);

const scriptSchema = z.array(turn).min(1);

type Turn = z.infer<typeof turn>;

/** `config.script` has one entry per turn; the last one ends the run. Throws ModelFailure. */
export function playScript(
  request: GenerateRequest,
  { sendChunk }: ModelCall,
): GenerateResponseData {
  const { script } = (request.config ?? {}) as { readonly script?: unknown };
  const turns = script === undefined ? demonstration(request) : checked(script);
  const index = request.messages.filter(({ role }) => role === "model").length;
  const content = contentOf(turns[index] ?? "The script has no further turn.", index, request);
  for (const { text } of content)
    for (const word of (text ?? "").match(/\S*\s*/g) ?? [])
      if (word !== "") sendChunk({ content: [{ text: word }] });
  return {
    message: { role: "model", content },
    finishReason: "stop",
    usage: { inputTokens: 0, outputTokens: 0 },
  };
}

function checked(script: unknown): readonly Turn[] {
  const result = scriptSchema.safeParse(script);
  if (result.success) return result.data;
  throw new ModelFailure(
    `\`config.script\` of the scripted model is not valid: ${z.prettifyError(result.error).replaceAll(/\s+/g, " ")}`,
    { retryable: false },
  );
}

function contentOf(given: Turn, index: number, request: GenerateRequest): Part[] {
  const { text, tool, input, calls = [] } = typeof given === "string" ? { text: given } : given;
  const all = tool === undefined ? calls : [{ tool, input }, ...calls];
  const known = values(request);
  return [
    ...(text === undefined ? [] : [{ text: filled(text, known) }]),
    ...all.map(({ tool: name, input: values = {} }, position) => ({
      toolRequest: {
        name,
        ref: `scripted_${index}_${position}`,
        input: mapStrings(values, (value) => filled(value, known)),
      },
    })),
  ];
}

/** What a script can refer to: `{{task}}`, and `{{result.FIELD}}` of the last tool call. */
function values({ messages }: GenerateRequest): Readonly<Record<string, unknown>> {
  const of = (role: MessageData["role"]) => messages.findLast((message) => message.role === role);
  const task =
    of("user")
      ?.content.map(({ text = "" }) => text)
      .join("") ?? "";
  return { task: task.trim(), result: of("tool")?.content.at(-1)?.toolResponse?.output };
}

function filled(text: string, known: Readonly<Record<string, unknown>>): string {
  return text.replaceAll(/\{\{\s*([\w.]+)\s*\}\}/g, (_, path: string) => {
    let value: unknown = known;
    for (const name of path.split("."))
      value =
        typeof value === "object" && value !== null && Object.hasOwn(value, name)
          ? (value as Readonly<Record<string, unknown>>)[name]
          : undefined;
    if (value === undefined) return "";
    return typeof value === "string" ? value.trimEnd() : JSON.stringify(value);
  });
}

function mapStrings(value: unknown, change: (text: string) => string): unknown {
  if (typeof value === "string") return change(value);
  if (Array.isArray(value)) return value.map((item) => mapStrings(item, change));
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(
    Object.entries(value).map(([name, item]) => [name, mapStrings(item, change)]),
  );
}

const PROGRAM = 'echo "Hello from the sandbox, it is $(uname -s)."\n';

/** Writes a program, runs it and reports what it printed, as far as the agent has the tools to. */
function demonstration({ tools = [] }: GenerateRequest): readonly Turn[] {
  const has = (name: string): boolean => tools.some((tool) => tool.name === name);
  if (has("sandbox_fs_write") && has("sandbox_exec"))
    return [
      {
        text: "I write a small program.",
        tool: "sandbox_fs_write",
        input: { path: "hello.sh", content: PROGRAM },
      },
      { text: "Now I run it.", tool: "sandbox_exec", input: { cmd: ["sh", "hello.sh"] } },
      { text: "The program printed: {{result.stdout}}" },
    ];
  if (has("sandbox_run"))
    return [
      {
        text: "I run a small program.",
        tool: "sandbox_run",
        input: { runtime: "bash", code: PROGRAM },
      },
      { text: "The program printed: {{result.stdout}}" },
    ];
  return [{ text: "This is the scripted model. You said: {{task}}" }];
}
