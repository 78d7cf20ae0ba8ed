/** Writes all files of the site: `docs` is the API reference, `guide` the documentation. */
import { copyFile, mkdir, readdir, readFile, writeFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { basename, dirname, join } from "node:path";
import { promisify } from "node:util";
import { gzip } from "node:zlib";
import { guideFiles } from "./guide/guide-files.ts";

const compress = promisify(gzip);
const require = createRequire(import.meta.url);
const sources = import.meta.dirname;
/** Smaller files are not compressed. */
const COMPRESSED_FROM_BYTES = 2048;
const COMPRESSIBLE = /\.(?:html|css|js|json|svg)$/;

export async function buildSite(root: string, target: string): Promise<void> {
  const reference = join(target, "docs");
  await copyTo(reference, [
    join(sources, "reference/index.html"),
    join(sources, "reference/adopted-styles.js"),
    join(sources, "reference/reference.css"),
    join(sources, "reference/reference.js"),
    join(sources, "assets/bar.css"),
    join(sources, "assets/icon.svg"),
  ]);
  const scalar = join(
    dirname(require.resolve("@scalar/api-reference/style.css")),
    "browser/standalone.js",
  );
  await writeFile(join(reference, "scalar.js"), referenceScript(await readFile(scalar, "utf8")));

  const guide = join(target, "guide");
  for (const [name, content] of await guideFiles(root)) {
    const file = join(guide, name);
    await mkdir(dirname(file), { recursive: true });
    await writeFile(file, content);
  }
  const search = require.resolve("minisearch").replace(/cjs\/index\.cjs$/, "es/index.js");
  await copyFile(search, join(guide, "minisearch.js"));
  await copyTo(
    guide,
    ["guide.css", "bar.css", "icon.svg"].map((name) => join(sources, "assets", name)),
  );
  const client = await readFile(join(sources, "assets/search.js"), "utf8");
  await writeFile(join(guide, "search.js"), client.replace('"minisearch"', '"./minisearch.js"'));
  await compressAll(target);
}

/** Samples get the width of their line numbers as an inline style, which the page's policy refuses. */
const LINE_STYLE =
  /\w+\.properties\.style=\[`--line-count: \$\{(\w+)\};`,`--line-digits: \$\{\1\.toString\(\)\.length\};`\]/g;

/** Without inline styles, and without the source map, which is not served. */
function referenceScript(scalar: string): string {
  if (scalar.match(LINE_STYLE)?.length !== 1)
    throw new Error("Scalar no longer styles samples in the way that build-site.ts replaces");
  return scalar.replace(LINE_STYLE, "0").replace(/\n\/\/# sourceMappingURL=.*\s*$/, "\n");
}

async function copyTo(directory: string, files: readonly string[]): Promise<void> {
  await mkdir(directory, { recursive: true });
  for (const file of files) await copyFile(file, join(directory, basename(file)));
}

/** Adds a compressed copy of each file. */
async function compressAll(directory: string): Promise<void> {
  const entries = await readdir(directory, { recursive: true, withFileTypes: true });
  const files = entries
    .filter((entry) => entry.isFile() && COMPRESSIBLE.test(entry.name))
    .map(({ parentPath, name }) => join(parentPath, name));
  await Promise.all(
    files.map(async (file) => {
      const content = await readFile(file);
      if (content.length >= COMPRESSED_FROM_BYTES)
        await writeFile(`${file}.gz`, await compress(content, { level: 9 }));
    }),
  );
}
