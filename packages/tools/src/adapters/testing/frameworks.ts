/** Every framework that has an adapter. */
import { readFileSync } from "node:fs";

interface Framework {
  readonly name: string;
  /** Its page in docs/guides/frameworks. */
  readonly guide: string;
  /** The adapter is `@sandkasten/tools/` followed by this name. */
  readonly subPath: string;
  /** The optional peers that the adapter imports. */
  readonly peers: readonly string[];
}

export const FRAMEWORKS: readonly Framework[] = [
  { name: "AI SDK", guide: "ai-sdk.md", subPath: "ai", peers: ["ai"] },
  {
    name: "Anthropic SDK",
    guide: "anthropic.md",
    subPath: "anthropic",
    peers: ["@anthropic-ai/sdk"],
  },
  {
    name: "ComputeSDK",
    guide: "computesdk.md",
    subPath: "computesdk",
    peers: ["@computesdk/provider"],
  },
  {
    name: "Deep Agents",
    guide: "langchain.md",
    subPath: "deepagents",
    peers: ["deepagents"],
  },
  {
    name: "Genkit",
    guide: "genkit.md",
    subPath: "genkit",
    peers: ["genkit"],
  },
  {
    name: "LangChain",
    guide: "langchain.md",
    subPath: "langchain",
    peers: ["@langchain/core"],
  },
  {
    name: "Mastra",
    guide: "mastra.md",
    subPath: "mastra",
    peers: ["@mastra/core"],
  },
  {
    name: "OpenAI Agents SDK",
    guide: "openai-agents.md",
    subPath: "openai-agents",
    peers: ["@openai/agents-core"],
  },
];

const root = new URL("../../../../../", import.meta.url);

interface Manifest {
  readonly version: string;
  readonly peerDependencies: Readonly<Record<string, string>>;
}

function manifestOf(directory: string): Manifest {
  return JSON.parse(readFileSync(new URL(`${directory}/package.json`, root), "utf8")) as Manifest;
}

/** The helpers of the Python client: the module, and the package that it is for. */
const PYTHON_HELPERS = [
  { name: "LangChain, Python", module: "langchain", pip: "langchain-core" },
  { name: "OpenAI Agents SDK, Python", module: "openai_agents", pip: "openai-agents" },
];

/** The tests of the Python client install exactly these versions. */
function pythonRows(): readonly string[] {
  const pinned = readFileSync(new URL("tests/python/requirements.txt", root), "utf8");
  const project = readFileSync(new URL("clients/python/pyproject.toml", root), "utf8");
  return PYTHON_HELPERS.map(({ name, module, pip }) => {
    const tested = new RegExp(`^${pip}==(.+)$`, "m").exec(pinned)?.[1];
    const accepted = new RegExp(`"${pip}([<>=][^"]+)"`).exec(project)?.[1];
    if (tested === undefined || accepted === undefined) throw new Error(`${pip} has no version`);
    return `| [${name}](../python.md#agent-frameworks) | \`sandkasten.${module}\` | \`${pip}\` | ${tested} | \`${accepted}\` |`;
  });
}

/** docs/guides/frameworks/versions.md, from the installed packages and the supported ranges. */
export function versionsPage(): string {
  const { peerDependencies } = manifestOf("packages/tools");
  const rows = FRAMEWORKS.flatMap(({ name, guide, subPath, peers }) =>
    peers.map((peer) => {
      const { version } = manifestOf(`node_modules/${peer}`);
      return `| [${name}](${guide}) | \`@sandkasten/tools/${subPath}\` | \`${peer}\` | ${version} | \`${peerDependencies[peer]}\` |`;
    }),
  );
  return `# Framework versions

<!-- Written by the tests of the adapters: packages/tools/src/adapters/adapters.serial.test.ts -->

Every adapter is tested with the framework's real package on real sandboxes. The versions that the tests ran with, and the versions that each adapter accepts as an optional dependency:

| framework | adapter | package | tested | accepted |
|---|---|---|---|---|
${[...rows, ...pythonRows()].join("\n")}
`;
}
