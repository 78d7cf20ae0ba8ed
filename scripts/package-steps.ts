/**
 * The steps of publishing a package. `npm pack` runs `prepack` and `postpack` automatically; `build`
 * writes the modules to the package's `dist`.
 */
import { rename, writeFile } from "node:fs/promises";
import { join } from "node:path";

export interface PackageSource {
  readonly directory: string;
  readonly build: (outputDir: string) => Promise<void>;
  readonly publishedManifest: () => object;
}

/** @param name - Of the step; `build` when absent. */
export async function runPackageStep(
  { directory, build, publishedManifest }: PackageSource,
  name = "build",
): Promise<void> {
  const manifestFile = join(directory, "package.json");
  const sourceManifestFile = join(directory, "package.source.json");
  switch (name) {
    case "build":
      return await build(join(directory, "dist"));
    // npm packs the manifest as it is after this step.
    case "prepack": {
      await build(join(directory, "dist"));
      // It reads the source manifest, so it comes before that is moved.
      const manifest = `${JSON.stringify(publishedManifest(), null, 2)}\n`;
      await rename(manifestFile, sourceManifestFile);
      return await writeFile(manifestFile, manifest);
    }
    case "postpack":
      return await rename(sourceManifestFile, manifestFile);
    default:
      throw new Error("usage: build.ts [build | prepack | postpack]");
  }
}
