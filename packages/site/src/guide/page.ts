/** The pages of the documentation, and their URLs on the site. */
import { posix } from "node:path";

export interface Page {
  /** Relative to the root of the repository: `docs/guides/sdk.md`. */
  readonly source: string;
  /** Relative to the root of the guide: `guides/sdk.html`. */
  readonly address: string;
  readonly title: string;
  readonly markdown: string;
}

export const HOME = "README.md";

export function pageOf(source: string, markdown: string): Page {
  const [, title = source] = /^# (.+)$/m.exec(markdown) ?? [];
  return { source, address: addressOf(source), title, markdown };
}

/** The URL of a documentation file. */
function addressOf(source: string): string {
  if (source === HOME) return "index.html";
  return source
    .replace(/^docs\//, "")
    .replace(/(^|\/)README\.md$/, "$1index.html")
    .replace(/\.md$/, ".html");
}

/**
 * Converts a link in a page for the site. Undefined if it leads to a file of the repository that
 * the site does not have.
 */
export function siteLink(link: string, from: Page, known: ReadonlySet<string>): string | undefined {
  if (/^(?:https?:|#)/.test(link)) return link;
  const [path = "", anchor] = link.split("#");
  const source = posix.normalize(posix.join(posix.dirname(from.source), path)).replace(/\/$/, "");
  const found = [source, `${source}/README.md`].find((name) => known.has(name));
  if (found === undefined) return undefined;
  const to = posix.relative(posix.dirname(from.address), addressOf(found));
  return anchor === undefined ? to : `${to}#${anchor}`;
}

/** The anchor of a heading, as code hosts generate it. */
export function headingAnchor(heading: string): string {
  return heading
    .toLowerCase()
    .replaceAll(/[^\p{L}\p{N}\s_-]/gu, "")
    .replaceAll(/\s/g, "-");
}
