/**
 * The published manifest: in the repository the package exports its sources, published it exports
 * the build.
 */
import { readFileSync } from "node:fs";
import { join } from "node:path";

const manifestFile = join(import.meta.dirname, "package.json");
const rootManifestFile = join(import.meta.dirname, "../../package.json");

export function publishedManifest(): object {
  const source = JSON.parse(readFileSync(manifestFile, "utf8"));
  const { name, version, description, keywords, type, engines } = source;
  const { license, author, repository } = JSON.parse(readFileSync(rootManifestFile, "utf8"));
  return {
    name,
    version,
    description,
    keywords,
    license,
    author,
    repository: { ...repository, directory: "packages/sdk" },
    type,
    exports: {
      ".": {
        import: { types: "./dist/index.d.ts", default: "./dist/index.js" },
        require: { types: "./dist/index.d.cts", default: "./dist/index.cjs" },
      },
      "./package.json": "./package.json",
    },
    // For tools that do not support `exports`.
    main: "./dist/index.cjs",
    module: "./dist/index.js",
    types: "./dist/index.d.ts",
    files: ["dist"],
    sideEffects: false,
    engines,
  };
}
