/** Which part of the code may import which. Imports that are not listed are refused. */
import type { IAllowedRuleType, IForbiddenRuleType } from "dependency-cruiser";

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

const inDaemon = (path: string): string => `^packages/daemon/src/${path}`;

/** Modules that only read, compute or wait, so every part of the daemon can use them. */
const harmless = ["buffer", "crypto", "events", "path", "string_decoder", "timers", "util"];

const parts: Readonly<Record<string, Part>> = {
  protocol: {
    path: "^packages/protocol/",
    npm: ["zod"],
    because: "everything depends on the protocol; it describes, and does nothing itself",
  },

  ports: {
    path: inDaemon("ports/"),
    parts: ["protocol"],
    // Byte streams belong to the platform, not to an adapter.
    node: ["stream"],
    because: "a port that names a type of one adapter's library fits that adapter only",
  },
  waiting: {
    path: inDaemon("(observed-deadline|failure-for-log)\\.ts$"),
    parts: ["protocol"],
    because: "every part of the daemon may use it",
  },
  directories: {
    path: inDaemon("(exists|find-program|make-directory|sync-directory)\\.ts$"),
    node: ["fs", "path"],
    because: "every adapter that works with files may use it",
  },
  tar: {
    path: inDaemon("tar/"),
    node: harmless,
    because: "the CLI reads archives with it, without the rest of the daemon",
  },
  "recorded limits": {
    path: inDaemon("limits-schema\\.ts$"),
    parts: ["ports"],
    npm: ["zod"],
    because: "stores and backends record the limits of a sandbox in one form",
  },
  sessions: {
    path: inDaemon("sessions/"),
    parts: ["protocol", "ports", "events", "network", "waiting"],
    node: harmless,
    npm: ["re2js"],
    because: "the core must not know what serves, stores or runs sessions",
  },

  events: {
    path: inDaemon("events/"),
    parts: ["protocol", "ports", "sessions"],
    node: harmless,
    because: "the core reports events; surfaces decide who follows them",
  },
  keys: {
    path: inDaemon("keys/"),
    parts: ["protocol", "ports", "sessions", "events"],
    node: harmless,
    npm: ["jose"],
    because: "callers are identified by their keys, independent of the protocol",
  },
  network: {
    path: inDaemon("network/"),
    parts: ["protocol", "ports", "waiting", "directories"],
    node: [...harmless, "dns", "fs", "http", "https", "net", "os", "stream", "tls", "url"],
    npm: ["@peculiar/x509", "reflect-metadata"],
    because: "it carries and judges connections of sandboxes; the core calls it through a port",
  },
  telemetry: {
    path: inDaemon("telemetry/"),
    parts: ["protocol", "ports", "sessions", "config", "telemetry package"],
    node: [...harmless, "http", "net"],
    because: "it only counts and traces what is reported to it",
  },

  channel: {
    path: inDaemon("channel/"),
    parts: ["protocol", "ports", "waiting"],
    node: [...harmless, "net", "stream"],
    because: "it speaks to a runner over a stream that a backend gives it",
  },
  journal: {
    path: inDaemon("journal/"),
    parts: ["protocol", "ports", "store", "directories"],
    node: [...harmless, "fs", "zlib"],
    npm: ["kysely"],
    because:
      "it keeps output in files or in the store's database; the core calls it through its port",
  },
  store: {
    path: inDaemon("store/"),
    parts: ["protocol", "ports", "recorded limits", "directories"],
    node: [...harmless, "fs", "os", "sqlite"],
    npm: ["kysely", "pg", "zod"],
    because: "it keeps rows and is called by the core through its port",
  },
  images: {
    path: inDaemon("images/"),
    parts: ["protocol", "ports", "network", "tar", "directories"],
    node: [
      ...harmless,
      "child_process",
      "dns",
      "fs",
      "http",
      "https",
      "net",
      "stream",
      "tls",
      "zlib",
    ],
    because: "it fetches and unpacks images and is called by the core through its port",
  },
  container: {
    path: inDaemon("backends/container/"),
    parts: ["protocol", "ports", "channel", "directories"],
    // Of TLS only the list of usual authorities.
    node: [...harmless, "child_process", "fs", "stream", "tls"],
    npm: ["zod"],
    because: "what container backends share knows none of them",
  },
  oci: {
    path: inDaemon("backends/oci/"),
    parts: ["protocol", "ports", "container", "channel", "recorded limits", "directories"],
    node: [...harmless, "child_process", "fs", "net", "os", "stream"],
    npm: ["zod"],
    because: "a backend is called by the core; it knows no other backend and no route",
  },
  docker: {
    path: inDaemon("backends/docker/"),
    parts: [
      "protocol",
      "ports",
      "container",
      "channel",
      "images",
      "tar",
      "recorded limits",
      "directories",
    ],
    node: [...harmless, "child_process", "fs", "http", "https", "os", "stream"],
    npm: ["dockerode", "zod"],
    because: "a backend is called by the core; it knows no other backend and no route",
  },

  http: {
    path: inDaemon("surfaces/http/"),
    parts: ["protocol", "ports", "sessions", "telemetry", "telemetry package", "waiting"],
    node: [...harmless, "http", "net", "stream"],
    npm: [
      "@fastify/multipart",
      "@fastify/static",
      "@fastify/websocket",
      "fastify",
      "fastify-type-provider-zod",
      "pino",
      "zod",
    ],
    because: "what every protocol over HTTP shares knows none of them",
  },
  preview: {
    path: inDaemon("surfaces/preview/"),
    parts: ["protocol", "ports", "sessions", "http", "waiting"],
    node: [...harmless, "http", "stream"],
    npm: ["fastify"],
    because: "previews stand beside the protocols, not on one of them",
  },
  peers: {
    path: inDaemon("surfaces/peers/"),
    parts: ["protocol", "sessions", "http", "preview", "waiting"],
    node: [...harmless, "http", "net", "stream"],
    npm: ["fastify", "zod"],
    because: "daemons that share a store forward requests to each other, whatever the protocol",
  },
  "site surface": {
    path: inDaemon("surfaces/site/"),
    parts: ["http"],
    node: harmless,
    npm: ["fastify"],
    because: "pages are files; whatever they show comes from a protocol beside it",
  },
  native: {
    path: inDaemon("surfaces/native/"),
    parts: [
      "protocol",
      "keys",
      "ports",
      "sessions",
      "events",
      "network",
      "http",
      "peers",
      "preview",
      "telemetry",
      "telemetry package",
      "waiting",
    ],
    node: [...harmless, "fs", "http", "os", "stream"],
    npm: [
      "@fastify/multipart",
      "@fastify/swagger",
      "@fastify/websocket",
      "fastify",
      "fastify-type-provider-zod",
      "pino",
      "zod",
    ],
    because: "a protocol parses, calls the core and serialises; it knows no other protocol",
  },
  "dashboard surface": {
    path: inDaemon("surfaces/dashboard/"),
    parts: ["protocol", "http"],
    node: [...harmless, "fs", "stream"],
    npm: ["fastify"],
    because: "it serves files and forwards to the agent service; it knows nothing of sessions",
  },
  surfaces: {
    path: inDaemon("surfaces/[^/]+$"),
    parts: [
      "protocol",
      "sessions",
      "keys",
      "http",
      "preview",
      "native",
      "dashboard surface",
      "peers",
      "site surface",
      "telemetry",
      "telemetry package",
    ],
    node: [...harmless, "fs"],
    npm: ["fastify", "pino"],
    because: "it puts the protocols on one server",
  },

  config: {
    path: inDaemon("config/"),
    parts: [
      "protocol",
      "ports",
      "events",
      "keys",
      "images",
      "network",
      "telemetry package",
      "directories",
    ],
    node: [...harmless, "fs", "net", "os"],
    npm: ["yaml", "zod"],
    because: "settings are read before anything is built",
  },
  process: {
    path: inDaemon("(data-dir|data-dir-lock|log-lines|oom-score|system-clock|version)\\.ts$"),
    parts: ["protocol", "ports", "config", "store", "images", "directories", "manifest"],
    node: [...harmless, "fs", "os", "sqlite"],
    npm: ["pino"],
    because: "it is about the daemon's own process and directory",
  },
  manifest: {
    path: "^packages/daemon/package\\.json$",
    because: "it is the daemon's version",
  },
  compose: {
    path: inDaemon(
      "(compose|compose-backends|compose-stores|daemon|index|native-programs|web-pages)\\.ts$",
    ),
    parts: [
      "protocol",
      "directories",
      "ports",
      "sessions",
      "channel",
      "journal",
      "store",
      "images",
      "oci",
      "docker",
      "events",
      "keys",
      "network",
      "telemetry",
      "telemetry package",
      "surfaces",
      "dashboard surface",
      "config",
      "process",
      "waiting",
    ],
    node: [...harmless, "fs", "module", "os", "url"],
    npm: ["fastify", "pino"],
    because: "only this part chooses and builds concrete implementations",
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

/** Tests, files in `testing/` folders, and tools that no package ships. */
const unshipped =
  "(\\.test\\.ts$|/testing/|/generate-[^/]+\\.ts$|^packages/testkit/|^packages/[^/]+/(?!src/)[^/]+/?[^/]*\\.ts$|^(tests|bench|scripts|examples)/|^[^/]+\\.ts$)";
/** What only those may import. */
const forTests = "(\\.test\\.ts$|/testing/|^packages/testkit/)";

function pathOf(name: string): string {
  const part = parts[name];
  if (part === undefined) throw new Error(`there is no part ${name}`);
  return part.path;
}

function allowedFor({ path, parts: others = [], node = [], npm = [] }: Part): IAllowedRuleType {
  const to = [
    path,
    ...others.map(pathOf),
    ...(node.length > 0 ? [`^(node:)?(${node.join("|")})(/|$)`] : []),
    ...npm.map((name) => `node_modules/${name}/`),
  ];
  return { from: { path, pathNot: unshipped }, to: { path: to, pathNot: forTests } };
}

export const allowedRules: IAllowedRuleType[] = [
  { from: { path: unshipped }, to: {} },
  ...Object.values(parts).map(allowedFor),
];

export const forbiddenRules: IForbiddenRuleType[] = [
  {
    name: "no-circle",
    comment: "Modules that import each other in a circle cannot be understood one at a time.",
    severity: "error",
    from: {},
    to: { circular: true },
  },
  {
    name: "no-unknown-import",
    comment: "An import that cannot be resolved cannot be checked either.",
    severity: "error",
    from: {},
    to: { couldNotResolve: true },
  },
];

/** The part that a module belongs to; undefined for unshipped modules, and for those without a part. */
export function partOf(source: string): { readonly name: string; readonly part: Part } | undefined {
  for (const [name, part] of Object.entries(parts))
    if (new RegExp(part.path).test(source)) return { name, part };
  return undefined;
}

export function isShipped(source: string): boolean {
  return !new RegExp(unshipped).test(source);
}
