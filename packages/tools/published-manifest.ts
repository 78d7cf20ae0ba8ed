/**
 * The published manifest: in the repository the package exports its sources, when published the
 * built modules.
 */
import { readFileSync } from "node:fs";
import { join } from "node:path";

const manifestFile = join(import.meta.dirname, "package.json");
const rootManifestFile = join(import.meta.dirname, "../../package.json");

export function publishedManifest(): object {
  const source = JSON.parse(readFileSync(manifestFile, "utf8"));
  const { devDependencies: _, scripts: __, exports: sources, ...rest } = source;
  const { license, author, repository } = JSON.parse(readFileSync(rootManifestFile, "utf8"));
  const entries = Object.entries<string>(sources).map(([name, path]) => {
    const built = path.replace("./src/", "./dist/").replace(/\.ts$/, "");
    return [name, { types: `${built}.d.ts`, default: `${built}.js` }];
  });
  return {
    ...rest,
    license,
    author,
    repository: { ...repository, directory: "packages/tools" },
    exports: { ...Object.fromEntries(entries), "./package.json": "./package.json" },
    files: ["dist"],
    sideEffects: false,
  };
}
