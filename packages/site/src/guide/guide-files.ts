/** All files of the guide: a page for each Markdown file, the images, and the search index. */
import { globSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import MiniSearch from "minisearch";
import { groupsOf } from "./navigation.ts";
import { HOME, pageOf } from "./page.ts";
import type { Page } from "./page.ts";
import { pageHtml } from "./layout.ts";
import { renderPage } from "./render.ts";
import type { Section } from "./render.ts";

/** By their paths below the root of the guide. */
export async function guideFiles(root: string): Promise<ReadonlyMap<string, string | Uint8Array>> {
  const pages = await pagesOf(root);
  const images = globSync("docs/**/*.{svg,png}", { cwd: root });
  const known = new Set([...pages.map(({ source }) => source), ...images]);
  const groups = groupsOf(pages);
  const files = new Map<string, string | Uint8Array>();
  const sections: Section[] = [];
  for (const page of pages) {
    const rendered = renderPage(page, known);
    sections.push(...rendered.sections);
    files.set(page.address, pageHtml(page, rendered.html, groups));
  }
  for (const image of images)
    files.set(image.replace(/^docs\//, ""), await readFile(join(root, image)));
  files.set("search.json", searchIndex(sections));
  return files;
}

async function pagesOf(root: string): Promise<readonly Page[]> {
  const names = globSync("docs/**/*.md", { cwd: root });
  const pages = await Promise.all(
    [HOME, ...names].map(async (name) => pageOf(name, await readFile(join(root, name), "utf8"))),
  );
  return [...pages, ...listings(pages)];
}

/** A page for each linked folder without a README. */
function listings(pages: readonly Page[]): readonly Page[] {
  const folder = "docs/adr";
  const inFolder = pages.filter(({ source }) => dirname(source) === folder);
  const links = inFolder
    .toSorted((one, other) => (one.source < other.source ? -1 : 1))
    .map(({ source, title }) => `- [${title}](${source.slice(folder.length + 1)})`);
  return [pageOf(`${folder}/README.md`, `# Decisions\n\n${links.join("\n")}\n`)];
}

/** search.js loads it with the same options. */
function searchIndex(sections: readonly Section[]): string {
  const index = new MiniSearch<Section & { readonly id: number }>({
    fields: ["page", "heading", "text"],
    storeFields: ["address", "page", "heading"],
  });
  index.addAll(sections.map((section, id) => ({ id, ...section })));
  return JSON.stringify(index);
}
