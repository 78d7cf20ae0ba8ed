/** Valid agent files, and files that must be rejected. */
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { parsePrompt } from "./parse-prompt.ts";

const FIXTURES = join(import.meta.dirname, "../testing/fixtures/agents");

const parse = async (source: string) => await parsePrompt("agents/one.prompt", source);
const withKeys = (yaml: string) => `---\n${yaml}\n---\nDo {{userInput}}.\n`;

async function problemOf(source: string): Promise<string> {
  return await parse(source).then(
    () => "no problem",
    (error: unknown) => (error as Error).message,
  );
}

test("the Python Developer of the first design is accepted unchanged", async () => {
  const file = join(FIXTURES, "python-developer.prompt");
  const agent = await parsePrompt("agents/python-developer.prompt", await readFile(file, "utf8"));
  expect(agent).toMatchObject({
    name: "python-developer",
    title: "Python Developer",
    description: "Writes and debugs Python code iteratively",
    model: "openai/gpt-4o",
    sandbox: { mode: "code", language: "python", limits: { memoryMb: 2048, workspaceMb: 500 } },
    outputFormat: "text",
    maxSteps: 40,
    timeoutSeconds: 300,
  });
  expect(agent.template).toMatch(/^You are a Python developer agent\./);
});

test("the Log Analyzer of the first design is accepted unchanged", async () => {
  const file = join(FIXTURES, "log-analyzer.prompt");
  const agent = await parsePrompt("agents/log-analyzer.prompt", await readFile(file, "utf8"));
  expect(agent).toMatchObject({
    title: "Log Analyzer",
    sandbox: { mode: "compute", language: "python" },
    outputFormat: "json",
  });
  expect(agent.input?.problem({})).toBe("log_data is missing");
  expect(agent.input?.problem({ log_data: "a" })).toBeUndefined();
  expect(agent.output?.problem({ total_lines: 1.5 })).toBe("total_lines must be integer");
});

describe("invalid files are refused with file, line and column", () => {
  test.for([
    ["no frontmatter", "Do something.", /^agents\/one\.prompt:1:1: .*starts with frontmatter/],
    ["no end", "---\nmodel: a/b\n", /:1:1: the frontmatter has no end/],
    ["bad YAML", withKeys("model: a/b\nconfig: {"), /:3:10: bad YAML/],
    ["a repeated key", withKeys("model: a/b\nmodel: c/d"), /:3:1: bad YAML: .*unique/],
    ["a tab", withKeys("config:\n\ttemperature: 1"), /:3:1: bad YAML/],
    ["an unknown tag", withKeys("model: !!js/function a"), /:2:8: bad YAML/],
    ["a list", withKeys("- a"), /:2:1: the frontmatter must be a mapping/],
    ["nothing", "---\n---\nHello", /:2:1: the frontmatter must be a mapping/],
    ["no prompt", "---\nmodel: a/b\n---\n\n", /there is no prompt/],
    ["a wrong type", withKeys("model: a/b\nmax_steps: many"), /:3:12: `max_steps`: /],
    ["a number out of range", withKeys("timeout_seconds: 0"), /:2:18: `timeout_seconds`: /],
    ["a model without provider", withKeys("model: gpt-4o"), /:2:8: .*PROVIDER\/NAME/],
    [
      "a bad schema",
      withKeys("input:\n  schema: { type: sausage }"),
      /:3:11: `input\.schema` is neither/,
    ],
    [
      "a bad Picoschema",
      withKeys("input:\n  schema:\n    a: sausage"),
      /:4:5: `input\.schema` is neither/,
    ],
    [
      "text with a schema",
      withKeys("output:\n  format: text\n  schema:\n    a: string"),
      /:3:11: .*contradict/,
    ],
    [
      "an unclosed block",
      "---\nmodel: a/b\n---\n{{#if a}}",
      /the template .* is not valid: Parse error/,
    ],
    [
      "an unknown helper",
      '---\nmodel: a/b\n---\n{{shell "rm"}}',
      /the template .* is not valid: .*shell/,
    ],
  ] as const)("%s", async ([, source, message]) => {
    expect(await problemOf(source)).toMatch(message);
  });
});

describe("unknown keys are refused with the nearest name", () => {
  test.for([
    ["models: a/b", /:2:1: `models` is not known; did you mean `model`\?/],
    ["maxSteps: 3", /:2:1: `maxSteps` is not known; did you mean `max_steps`\?/],
    ["input:\n  shema: {}", /:3:3: `input\.shema` is not known; did you mean `schema`\?/],
    ["sandbox:\n  mode: code\n  limits:\n    memory: 5", /:5:5: sandbox: .*memory/],
    ["sandbox:\n  rumtime: python", /:3:3: sandbox: .*rumtime.*runtime/],
    ["mcp:\n  files:\n    comand: x", /:4:5: `mcp\.files`: /],
  ] as const)("%s", async ([yaml, message]) => {
    expect(await problemOf(withKeys(yaml))).toMatch(message);
  });
});

test("an MCP server cannot impersonate the sandbox or an agent", async () => {
  for (const name of ["sandbox", "Sandbox", "sandbox_fs", "agent", "agent_x"])
    expect(await problemOf(withKeys(`mcp:\n  ${name}:\n    url: http://localhost/mcp`))).toMatch(
      /`mcp\.[^`]*`: .*must not begin with `sandbox` or `agent`/,
    );
  expect((await parse(withKeys("mcp:\n  sandboxes:\n    url: http://localhost/mcp"))).mcp).toEqual({
    sandboxes: { url: "http://localhost/mcp" },
  });
});

test("keys of metadata and of the model's configuration are not restricted", async () => {
  const agent = await parse(
    withKeys("metadata: { name: A, team: x }\nconfig: { temperature: 0, reasoning_effort: low }"),
  );
  expect(agent.config).toEqual({ temperature: 0, reasoning_effort: "low" });
});

test("Picoschema becomes JSON Schema", async () => {
  const agent = await parse(
    withKeys("output:\n  schema:\n    score: integer, from 1 to 10\n    tags?(array): string"),
  );
  expect(agent.output?.schema).toMatchObject({
    required: ["score"],
    properties: {
      score: { type: "integer", description: "from 1 to 10" },
      tags: { type: ["array", "null"], items: { type: "string" } },
    },
  });
});

test("Windows line ends and a byte order mark are accepted", async () => {
  const agent = await parse("\uFEFF---\r\nmodel: a/b\r\n---\r\nHello\r\nthere\r\n");
  expect(agent).toMatchObject({ model: "a/b", template: "Hello\nthere" });
});

test("YAML that would expand to gigabytes is refused", async () => {
  const layers = Array.from({ length: 12 }, (_, index) =>
    index === 0
      ? "a0: &a0 [x,x,x,x,x,x,x,x,x]"
      : `a${index}: &a${index} [${`*a${index - 1},`.repeat(9)}]`,
  );
  expect(await problemOf(withKeys(layers.join("\n")))).toMatch(/bad YAML: .*alias/i);
});

test("a file that is too large to be an agent is refused", async () => {
  expect(await problemOf(`---\nmodel: a/b\n---\n${"x".repeat(2_000_000)}`)).toMatch(/larger than/);
});
