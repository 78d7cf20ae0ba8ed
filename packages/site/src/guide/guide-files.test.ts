import { posix, join } from "node:path";
import MiniSearch from "minisearch";
import { beforeAll, describe, expect, test } from "vitest";
import { guideFiles } from "./guide-files.ts";
import { pageOf } from "./page.ts";
import { renderPage } from "./render.ts";

const ROOT = join(import.meta.dirname, "../../../..");
/** These are copied next to the pages. */
const ASSETS = ["bar.css", "guide.css", "search.js", "icon.svg"];

let files: ReadonlyMap<string, string | Uint8Array>;
let pages: readonly (readonly [string, string])[];
beforeAll(async () => {
  files = await guideFiles(ROOT);
  pages = [...files].flatMap(([name, content]) =>
    name.endsWith(".html") ? [[name, String(content)] as const] : [],
  );
});

function linksOf(address: string, html: string): readonly string[] {
  return [...html.matchAll(/(?:href|src)="([^"]+)"/g)]
    .map(([, link = ""]) => link.replaceAll("&amp;", "&"))
    .filter((link) => !/^https?:|^\/(?:docs\/)?$/.test(link))
    .map((link) => posix.normalize(posix.join(posix.dirname(address), link || "")))
    .map((link) => (link.startsWith("#") ? address + link : link));
}

const targetOf = (address: string, link: string): string =>
  link.includes("#") && posix.basename(link).startsWith("#")
    ? address + link.slice(link.indexOf("#"))
    : link;

describe("the guide", () => {
  test("has no dead links, and each anchor exists", () => {
    const dead: string[] = [];
    let anchors = 0;
    for (const [address, html] of pages)
      for (const link of linksOf(address, html)) {
        const [path = "", anchor] = targetOf(address, link).split("#");
        const found = files.get(path);
        if (found === undefined ? !ASSETS.includes(path) : false) dead.push(`${address}: ${link}`);
        if (anchor === undefined || found === undefined) continue;
        anchors += 1;
        if (!String(found).includes(`id="${decodeURIComponent(anchor)}"`))
          dead.push(`${address}: no heading ${link}`);
      }
    expect(dead).toEqual([]);
    expect(anchors).toBeGreaterThan(100);
  });

  test("links to every page from the first, and lists every page once", () => {
    const reached = new Set<string>();
    const visit = (address: string): void => {
      if (reached.has(address)) return;
      reached.add(address);
      for (const link of linksOf(address, String(files.get(address))))
        if (files.has(link.split("#")[0] ?? "") && link.includes(".html"))
          visit(link.split("#")[0] ?? "");
    };
    visit("index.html");
    expect(pages.length).toBeGreaterThan(40);
    expect([...reached].toSorted()).toEqual(pages.map(([name]) => name).toSorted());
    const [, home = ""] = pages.find(([name]) => name === "index.html") ?? [];
    const [list = ""] = /<nav class="pages".*?<\/nav>/s.exec(home) ?? [];
    const listed = [...list.matchAll(/href="([^"]+)"/g)].map(([, link = ""]) => link);
    expect(listed.toSorted()).toEqual(pages.map(([name]) => name).toSorted());
  });

  test("needs no inline script or style", () => {
    for (const [, html] of pages) expect(html).not.toMatch(/<style|<script>|\sstyle=|\son\w+="/);
  });

  test("can be searched by words of its sections", () => {
    const index = MiniSearch.loadJSON(String(files.get("search.json")), {
      fields: ["page", "heading", "text"],
      storeFields: ["address", "page", "heading"],
    });
    const [first] = index.search("on_unreadable");
    expect(String(first?.["address"])).toMatch(/\.html#/);
    expect(index.search("xyzzyplugh")).toEqual([]);
  });
});

describe("a page", () => {
  const known = new Set(["README.md", "docs/guides/a.md", "docs/guides/sub/README.md"]);
  const render = (markdown: string): string =>
    renderPage(pageOf("docs/guides/a.md", markdown), known).html;

  test("links to other pages, and keeps links to sources as text", () => {
    expect(render("[x](sub/README.md#y)")).toContain('href="sub/index.html#y"');
    expect(render("[x](sub)")).toContain('href="sub/index.html"');
    expect(render("[x](../../README.md)")).toContain('href="../index.html"');
    expect(render("[x](../../packages/cli)")).toBe("<p><span>x</span></p>\n");
  });

  test("shows markup as text", () => {
    expect(render("<script>alert(1)</script>")).not.toContain("<script");
    expect(render("[x](javascript:alert(1))")).not.toContain("<a ");
    expect(render("# <b>\n")).toContain("&lt;b&gt;");
  });
});
