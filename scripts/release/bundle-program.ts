/** Bundles the command line, the daemon, the agents and the MCP server into one directory of modules. */
import { rolldown } from "rolldown";
import { root } from "./versions.ts";

/** Each is a separate file: Node starts it, or a thread runs it. */
const entries = {
  main: "packages/cli/src/main.ts",
  "evaluation-worker": "packages/agents/src/workflows/expressions/evaluation-worker.ts",
};

/** A small young generation, as in packages/cli/bin/sandkasten. */
const shebang = "#!/usr/bin/env -S node --max-semi-space-size=4\n";

/** Only our own packages are bundled; third-party packages are dependencies, and imported. */
const isOurs = (id: string): boolean => /^[./]|^@sandkasten\//.test(id);

/** @returns The third-party packages that the modules import. */
export async function bundleProgram(outputDir: string): Promise<ReadonlySet<string>> {
  const bundle = await rolldown({
    cwd: root,
    input: entries,
    platform: "node",
    external: (id) => !isOurs(id),
    onLog: (_level, log) => {
      throw new Error(log.message);
    },
    plugins: [
      {
        name: "shebang",
        renderChunk: (code, { fileName }) =>
          fileName === "main.js" ? code.replace(/^#!.*\n/, shebang) : undefined,
      },
    ],
  });
  try {
    const { output } = await bundle.write({
      dir: outputDir,
      format: "esm",
      entryFileNames: "[name].js",
      // Flat, because some modules look for others next to themselves.
      chunkFileNames: ({ name, facadeModuleId }) =>
        `${/packages\/([^/]+)\/src\/index\.ts$/.exec(facadeModuleId ?? "")?.[1] ?? name}.js`,
    });
    const chunks = output.filter((part) => part.type === "chunk");
    const imported = chunks.flatMap(({ imports, dynamicImports }) => [
      ...imports,
      ...dynamicImports,
    ]);
    const ours = new Set(chunks.map(({ fileName }) => fileName));
    const others = imported.filter((id) => !ours.has(id) && !id.startsWith("node:"));
    return new Set(others.map(packageName));
  } finally {
    await bundle.close();
  }
}

const packageName = (id: string): string => id.split("/", id.startsWith("@") ? 2 : 1).join("/");
