/** Every framework that has an adapter. */
import { readFileSync } from "node:fs";

interface Framework {
  readonly name: string;
  /** The page about it in docs/guides/frameworks. */
  readonly guide: string;
  /** The adapter is `@sandkasten/tools/` with this name. */
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

/** docs/guides/frameworks/versions.md, from the packages that are installed and the ranges that are promised. */
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

Every adapter is tested with the framework's real package on real sandboxes. The versions that the tests ran with, and the versions that each adapter accepts as a peer dependency:

| framework | adapter | package | tested | accepted |
|---|---|---|---|---|
${rows.join("\n")}
`;
}
