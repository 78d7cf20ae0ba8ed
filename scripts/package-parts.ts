/** The packages, and what each of them may import. Imports that are not listed are refused. */

/** A part of the code by its paths, and what it may import besides itself. */
export interface Part {
  readonly path: string;
  /** Other parts, by name. */
  readonly parts?: readonly string[];
  /** Modules of Node. */
  readonly node?: readonly string[];
  /** Third-party packages. */
  readonly npm?: readonly string[];
  /** Why it may import no more. */
  readonly because: string;
}

/** Modules that only read, compute or wait, so every part of every package can use them. */
export const harmless = ["buffer", "crypto", "events", "path", "string_decoder", "timers", "util"];

export const packageParts: Readonly<Record<string, Part>> = {
  protocol: {
    path: "^packages/protocol/",
    npm: ["zod"],
    because: "everything depends on the protocol; it describes, and does nothing itself",
  },
  site: {
    path: "^packages/site/src/",
    node: [...harmless, "fs", "module", "zlib"],
    npm: ["highlight.js", "markdown-it", "minisearch", "@scalar/api-reference"],
    because: "it turns documents into pages, before any daemon runs",
  },
  sdk: {
    path: "^packages/sdk/src/",
    parts: ["protocol"],
    because: "the SDK runs in browsers and needs no other package; of the protocol it takes types",
  },
  "telemetry package": {
    path: "^packages/telemetry/src/",
    npm: ["@opentelemetry/[^/]+"],
    node: [...harmless, "fs", "http", "os"],
    because: "the daemon and the agents share it, so it knows neither",
  },
  "tool adapters": {
    path: "^packages/tools/src/adapters/",
    parts: ["sdk", "tools"],
    node: [...harmless, "fs"],
    npm: [
      "@anthropic-ai/sdk",
      "@computesdk/provider",
      "@langchain/core",
      "@mastra/core",
      "@openai/agents-core",
      "ai",
      "deepagents",
      "genkit",
      "zod",
    ],
    because: "an adapter joins the tools to one framework; nothing else knows that framework",
  },
  tools: {
    path: "^packages/tools/(?!src/adapters/)",
    parts: ["sdk"],
    node: [...harmless, "fs", "module"],
    npm: ["@opentelemetry/api", "zod"],
    because: "tools are clients of the daemon and belong to no framework",
  },
  "agent client": {
    path: "^packages/agents/src/client/",
    parts: ["sdk"],
    because: "the CLI loads it without the rest of the agents",
  },
  agents: {
    path: "^packages/agents/src/(?!client/)",
    parts: ["sdk", "tools", "agent client", "telemetry package"],
    node: [...harmless, "fs", "http", "net", "sqlite", "worker_threads"],
    npm: [
      "@bufbuild/cel",
      "@genkit-ai/anthropic",
      "@genkit-ai/google-genai",
      "@modelcontextprotocol/client",
      "@opentelemetry/api",
      "ajv",
      "dotprompt",
      "fastify",
      "genkit",
      "pino",
      "re2js",
      "yaml",
      "zod",
    ],
    because: "agents are clients of the daemon and speak to it over HTTP",
  },
  dashboard: {
    path: "^packages/dashboard/src/",
    parts: ["sdk", "agent client"],
    npm: ["@preact/signals", "@xterm/addon-fit", "@xterm/xterm", "preact", "uplot"],
    because: "it runs in browsers and is a client like others",
  },
  mcp: {
    path: "^packages/mcp/src/",
    parts: ["sdk", "tools", "telemetry package"],
    node: [...harmless, "http", "net", "stream"],
    npm: ["@modelcontextprotocol/node", "@modelcontextprotocol/server", "@opentelemetry/api"],
    because: "it serves the tools over MCP and is a client of the daemon",
  },
  cli: {
    path: "^packages/cli/src/",
    parts: [
      "sdk",
      "tools",
      "mcp",
      "agents",
      "agent client",
      "compose",
      "config",
      "tar",
      "directories",
    ],
    node: [...harmless, "child_process", "fs", "module", "net", "os", "readline", "stream", "url"],
    npm: ["@clack/prompts", "cli-table3", "commander", "pino", "yaml"],
    because: "the CLI starts the daemon and the agents and otherwise speaks to them over HTTP",
  },
};
