/** The layout of every page: header, search, list of pages, and links to the next and previous page. */
import { posix } from "node:path";
import type { Group } from "./navigation.ts";
import type { Page } from "./page.ts";

export function pageHtml(page: Page, content: string, groups: readonly Group[]): string {
  const up = posix.relative(posix.dirname(page.address), "") || ".";
  const to = (address: string): string => posix.relative(posix.dirname(page.address), address);
  const all = groups.flatMap(({ pages }) => pages);
  const index = all.indexOf(page);
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${escapeHtml(page.title)} · Sandkasten</title>
<link rel="icon" href="${up}/icon.svg">
<link rel="stylesheet" href="${up}/bar.css">
<link rel="stylesheet" href="${up}/guide.css">
<script type="module" src="${up}/search.js"></script>
</head>
<body>
<a class="skip" href="#content">Skip to content</a>
<header class="bar">
<a class="brand" href="${up}/index.html">Sandkasten</a>
<nav><a href="/">Dashboard</a><a href="${up}/index.html" aria-current="page">Guide</a><a href="/docs/">API reference</a></nav>
<div class="search" role="search">
<input type="search" id="search" placeholder="Search (press /)" aria-label="Search the guide" aria-controls="results" autocomplete="off">
<ul id="results" hidden></ul>
</div>
</header>
<div class="columns">
<nav class="pages" aria-label="Pages"><details open><summary>All pages</summary>
${groups.map((group) => groupHtml(group, page, to)).join("\n")}
</details></nav>
<main id="content">
${content}
<nav class="around" aria-label="Next and previous page">${around("prev", all[index - 1], to)}${around("next", all[index + 1], to)}</nav>
</main>
</div>
</body>
</html>
`;
}

function groupHtml(
  { title, pages }: Group,
  current: Page,
  to: (address: string) => string,
): string {
  const items = pages.map((page) => {
    const mark = page === current ? ' aria-current="page"' : "";
    return `<li><a href="${to(page.address)}"${mark}>${escapeHtml(page.title)}</a></li>`;
  });
  return `<h2>${escapeHtml(title)}</h2><ul>${items.join("")}</ul>`;
}

function around(
  rel: "prev" | "next",
  page: Page | undefined,
  to: (address: string) => string,
): string {
  return page === undefined
    ? "<span></span>"
    : `<a rel="${rel}" href="${to(page.address)}">${escapeHtml(page.title)}</a>`;
}

function escapeHtml(text: string): string {
  return text
    .replaceAll("&", "&amp;")
    .replaceAll("<", "&lt;")
    .replaceAll(">", "&gt;")
    .replaceAll('"', "&quot;");
}
