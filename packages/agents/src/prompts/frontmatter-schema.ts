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
        "Environment variables of the program. Otherwise it only gets HOME, LOGNAME, PATH, SHELL, TERM and USER. `${NAME}` inserts the service's variable NAME",
      ),
    cwd: z
      .string()
      .min(1)
      .optional()
      .describe("Working directory; default: the directory of the agents"),
  }),
  z.strictObject({
    url: z.url({ protocol: /^https?$/ }).describe("URL of a server with streamable HTTP"),
    headers: z
      .record(z.string(), z.string())
      .optional()
      .describe("Headers of each request. `${NAME}` inserts the service's variable NAME"),
  }),
]);

const modelConfig = z.looseObject({
  temperature: z.number().min(0).max(2).optional().describe("Randomness of the answers; 0 to 2"),
  topP: z
    .number()
    .min(0)
    .max(1)
    .optional()
    .describe("Cumulative probability of the tokens to choose from"),
  topK: z
    .number()
    .int()
    .min(1)
    .optional()
    .describe("How many of the most likely tokens to choose from"),
  maxOutputTokens: z
    .number()
    .int()
    .min(1)
    .optional()
    .describe("Maximum length of the answer in one turn"),
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
    .describe("Alternative name for running the agent, besides the name of its file"),
  description: z
    .string()
    .max(4000)
    .optional()
    .describe("What the agent does. Agents that can call this one see it"),
});

const schemaValue = z.union([z.string().min(1), z.record(z.string(), z.unknown())]);

export const frontmatterSchema = z.strictObject({
  model: z
    .string()
    .regex(/^[A-Za-z0-9_-]+\/\S{1,200}$/, "must be PROVIDER/NAME, as in openai/gpt-4o")
    .optional()
    .describe(
      "`openai/NAME`, `anthropic/NAME`, `googleai/NAME` or `scripted/NAME`; default: SANDKASTEN_AGENTS_MODEL",
    ),
  config: modelConfig
    .optional()
    .describe(
      "Settings of the model. Keys that are not listed here are passed to the model's provider",
    ),
  metadata: metadata
    .optional()
    .describe("Name and description. Other keys are kept but have no effect"),
  input: z
    .strictObject({
      schema: schemaValue.optional().describe(`What \`--input\` must be: ${schemaForm}`),
      default: z
        .record(z.string(), z.unknown())
        .optional()
        .describe("Default values for fields that the input omits"),
    })
    .optional()
    .describe("Structured input, whose values the template can use"),
  output: z
    .strictObject({
      format: z
        .enum(["json", "text"])
        .optional()
        .describe("Default: `json` with a schema, otherwise `text`"),
      schema: schemaValue.optional().describe(`What the answer must be: ${schemaForm}`),
    })
    .optional()
    .describe(
      "Structured output. The model gets two attempts to correct an answer that does not match",
    ),
  sandbox: z.unknown().optional().describe("The sandbox and its tools: see below"),
  tools: z
    .array(z.string().min(1))
    .optional()
    .describe(
      "The tools of the MCP servers that the agent can use, as `SERVER_TOOL`, at most 200; default: all. `sandbox` adds the sandbox tools",
    ),
  agents: z
    .array(z.string().min(1))
    .optional()
    .describe("Other agents that this one can call, each as a tool"),
  mcp: z
    .record(mcpName, mcpServer)
    .optional()
    .describe("MCP servers whose tools the agent can use, each with a name of your choice"),
  max_steps: z
    .number()
    .int()
    .min(1)
    .max(1000)
    .optional()
    .describe(`Maximum number of model turns; default: ${DEFAULT_MAX_STEPS}`),
  timeout_seconds: z
    .number()
    .min(1)
    .max(86_400)
    .optional()
    .describe(
      `Maximum duration of a run, excluding time in sandbox tools and other agents; default: ${DEFAULT_TIMEOUT_SECONDS}`,
    ),
});

export type FrontmatterValue = z.infer<typeof frontmatterSchema>;
export type McpServerSettings = z.infer<typeof mcpServer>;
