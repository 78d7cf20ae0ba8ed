/** The keys of an agent's frontmatter. `docs/reference/frontmatter.md` is generated from them. */
import { z } from "zod";

export const DEFAULT_MAX_STEPS = 40;
export const DEFAULT_TIMEOUT_SECONDS = 300;

const schemaForm = "JSON Schema, or Picoschema as in `name: string, who it is for`";

const mcpName = z
  .string()
  .regex(/^[A-Za-z0-9_-]{1,32}$/, "must be 1 to 32 letters, digits, `_` or `-`")
  // SECURITY: the tools of a server named `sandbox` could pose as those of the sandbox. Guarded by
  // parse-prompt.test.ts.
  .refine(
    (name) => !/^(?:sandbox|agent)(?:_|$)/i.test(name),
    "must not begin with `sandbox` or `agent`",
  );

const mcpServer = z.union([
  z.strictObject({
    command: z.string().min(1).describe("Program to start on the machine of the agent service"),
    args: z.array(z.string()).optional().describe("Arguments of the program"),
    env: z
      .record(z.string(), z.string())
      .optional()
      .describe(
        "Variables of the program, which gets no others but HOME, LOGNAME, PATH, SHELL, TERM and USER. `${NAME}` is the service's variable NAME",
      ),
    cwd: z
      .string()
      .min(1)
      .optional()
      .describe("Directory to start it in; that of the agents unless set"),
  }),
  z.strictObject({
    url: z.url({ protocol: /^https?$/ }).describe("Address of a server with streamable HTTP"),
    headers: z
      .record(z.string(), z.string())
      .optional()
      .describe("Headers of each request. `${NAME}` is the service's variable NAME"),
  }),
]);

const modelConfig = z.looseObject({
  temperature: z.number().min(0).max(2).optional().describe("How much chance decides; 0 to 2"),
  topP: z
    .number()
    .min(0)
    .max(1)
    .optional()
    .describe("Share of the likeliest tokens to choose from"),
  topK: z
    .number()
    .int()
    .min(1)
    .optional()
    .describe("How many of the likeliest tokens to choose from"),
  maxOutputTokens: z.number().int().min(1).optional().describe("Longest answer of one turn"),
  stopSequences: z.array(z.string()).max(16).optional().describe("Texts that end an answer"),
  script: z
    .array(z.unknown())
    .optional()
    .describe(
      "Turns of the `scripted` model, see [the guide](../guides/prompt-agents.md#without-a-model)",
    ),
});

const metadata = z.looseObject({
  name: z
    .string()
    .min(1)
    .max(200)
    .optional()
    .describe("Name by which the agent can be run, beside the name of its file"),
  description: z
    .string()
    .max(4000)
    .optional()
    .describe("What the agent does; other agents read it when they may call this one"),
});

const schemaValue = z.union([z.string().min(1), z.record(z.string(), z.unknown())]);

export const frontmatterSchema = z.strictObject({
  model: z
    .string()
    .regex(/^[A-Za-z0-9_-]+\/\S{1,200}$/, "must be PROVIDER/NAME, as in openai/gpt-4o")
    .optional()
    .describe(
      "`openai/NAME`, `anthropic/NAME`, `googleai/NAME` or `scripted/NAME`; SANDKASTEN_AGENTS_MODEL unless set",
    ),
  config: modelConfig
    .optional()
    .describe("Settings of the model. Keys that are not listed here go to the model's provider"),
  metadata: metadata
    .optional()
    .describe("What the agent is called and does. Further keys are kept and mean nothing"),
  input: z
    .strictObject({
      schema: schemaValue.optional().describe(`What \`--input\` must be: ${schemaForm}`),
      default: z
        .record(z.string(), z.unknown())
        .optional()
        .describe("Values of what the input leaves out"),
    })
    .optional()
    .describe("Structured input, whose values the template can use"),
  output: z
    .strictObject({
      format: z
        .enum(["json", "text"])
        .optional()
        .describe("`json` with a schema, else `text`, unless set"),
      schema: schemaValue.optional().describe(`What the answer must be: ${schemaForm}`),
    })
    .optional()
    .describe(
      "Structured output. The model gets two chances to correct an answer that does not fit",
    ),
  sandbox: z.unknown().optional().describe("The sandbox and its tools: see below"),
  tools: z
    .array(z.string().min(1))
    .optional()
    .describe(
      "Which tools of the MCP servers the agent may use, as `SERVER_TOOL`, at most 200; all of them unless set. Sandbox tools come with `sandbox`",
    ),
  agents: z
    .array(z.string().min(1))
    .optional()
    .describe("Other agents that this one may call, each as a tool"),
  mcp: z
    .record(mcpName, mcpServer)
    .optional()
    .describe("MCP servers whose tools the agent may use, by a name of your choice"),
  max_steps: z
    .number()
    .int()
    .min(1)
    .max(1000)
    .optional()
    .describe(`How many turns the model may take; ${DEFAULT_MAX_STEPS} unless set`),
  timeout_seconds: z
    .number()
    .min(1)
    .max(86_400)
    .optional()
    .describe(
      `How long a run may take, not counting time in sandbox tools and in other agents; ${DEFAULT_TIMEOUT_SECONDS} unless set`,
    ),
});

export type FrontmatterValue = z.infer<typeof frontmatterSchema>;
export type McpServerSettings = z.infer<typeof mcpServer>;
