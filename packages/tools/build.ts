/** Builds the published package: `node build.ts [build | prepack | postpack]`. */
import { runPackageStep } from "../../scripts/package-steps.ts";
import { buildPackage } from "./build-package.ts";
import { publishedManifest } from "./published-manifest.ts";

await runPackageStep(
  { directory: import.meta.dirname, build: buildPackage, publishedManifest },
  process.argv[2],
);
