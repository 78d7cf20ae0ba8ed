/** Renders a page's Markdown as HTML, and as sections for the search. */
import { createRequire } from "node:module";
import MarkdownIt from "markdown-it";
import { headingAnchor, siteLink } from "./page.ts";
import type { Page } from "./page.ts";

export interface Section {
  /** Relative to the root of the guide, with the heading's anchor. */
  readonly address: string;
  readonly page: string;
  readonly heading: string;
  readonly text: string;
}

export interface RenderedPage {
  readonly html: string;
  readonly sections: readonly Section[];
}

/** Its own types would add browser types to every file of the repository. */
interface Highlighter {
  getLanguage(name: string): object | undefined;
  highlight(code: string, options: { readonly language: string }): { readonly value: string };
}
const require = createRequire(import.meta.url);
const highlighter = require("highlight.js") as Highlighter;

/** Languages in the documentation that the highlighter knows by another name, or not at all. */
const LANGUAGES: Readonly<Record<string, string>> = {
  sh: "bash",
  "": "plaintext",
  text: "plaintext",
};

const markdown = new MarkdownIt({
  html: false,
  linkify: false,
  highlight: (code, language) => {
    const name = LANGUAGES[language] ?? language;
    return highlighter.getLanguage(name) === undefined
      ? ""
      : highlighter.highlight(code, { language: name }).value;
  },
});

const renderFence = markdown.renderer.rules.fence;
/** Scrollable elements must be reachable by keyboard. */
markdown.renderer.rules.fence = (...parameters) =>
  (renderFence?.(...parameters) ?? "").replace(/^<pre>/, '<pre tabindex="0">');

export function renderPage(page: Page, known: ReadonlySet<string>): RenderedPage {
  const tokens = markdown.parse(page.markdown, {});
  const sections: Section[] = [];
  const seen = new Map<string, number>();
  let section = { address: page.address, page: page.title, heading: page.title, text: "" };
  for (const [index, token] of tokens.entries()) {
    if (token.type === "heading_open") {
      const heading = textOf(tokens[index + 1]?.children ?? []);
      const anchor = uniqueAnchor(headingAnchor(heading), seen);
      token.attrSet("id", anchor);
      if (section.text !== "") sections.push(section);
      const address = token.tag === "h1" ? page.address : `${page.address}#${anchor}`;
      section = { address, page: page.title, heading, text: "" };
    } else if (token.type === "inline") {
      section.text += `${textOf(token.children ?? [])}\n`;
      rewriteLinks(token.children ?? [], page, known);
    } else if (token.type === "table_open") {
      token.attrSet("tabindex", "0");
    } else if (token.type === "fence") {
      section.text += `${token.content}\n`;
    }
  }
  sections.push(section);
  return { html: markdown.renderer.render(tokens, markdown.options, {}), sections };
}

type Token = ReturnType<typeof markdown.parse>[number];

function textOf(tokens: readonly Token[]): string {
  return tokens.map(({ type, content }) => (type === "softbreak" ? " " : content)).join("");
}

/** Repeated headings get a number. */
function uniqueAnchor(anchor: string, seen: Map<string, number>): string {
  const count = seen.get(anchor) ?? 0;
  seen.set(anchor, count + 1);
  return count === 0 ? anchor : `${anchor}-${count}`;
}

function rewriteLinks(tokens: readonly Token[], page: Page, known: ReadonlySet<string>): void {
  for (const [index, token] of tokens.entries()) {
    const attribute = token.type === "image" ? "src" : "href";
    const link = token.attrGet(attribute);
    if (link === null || (token.type !== "link_open" && token.type !== "image")) continue;
    const target = siteLink(String(link), page, known);
    if (target !== undefined) token.attrSet(attribute, target);
    else if (token.type === "image")
      throw new Error(`${page.source} shows ${String(link)}, which is not there`);
    else unlink(tokens, index);
  }
}

/** The text of a link to a file of the repository stays as plain text. */
function unlink(tokens: readonly Token[], index: number): void {
  const end = tokens.findIndex(({ type }, place) => place > index && type === "link_close");
  for (const token of [tokens[index], tokens[end]]) {
    if (token === undefined) continue;
    token.tag = "span";
    token.attrs = null;
  }
}
