/** The pages of the documentation, and where each is found on the site. */
import { posix } from "node:path";

export interface Page {
  /** From the root of the repository: `docs/guides/sdk.md`. */
  readonly source: string;
  /** From the root of the guide: `guides/sdk.html`. */
  readonly address: string;
  readonly title: string;
  readonly markdown: string;
}

export const HOME = "README.md";

export function pageOf(source: string, markdown: string): Page {
  const [, title = source] = /^# (.+)$/m.exec(markdown) ?? [];
  return { source, address: addressOf(source), title, markdown };
}

/** Where a file of the documentation is on the site. */
function addressOf(source: string): string {
  if (source === HOME) return "index.html";
  return source
    .replace(/^docs\//, "")
    .replace(/(^|\/)README\.md$/, "$1index.html")
    .replace(/\.md$/, ".html");
}

/**
 * A link as it is written in a page, for that page on the site. Undefined when it leads to a file of the
 * repository that the site does not have.
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

/** The name by which links reach a heading, as code hosts make it. */
export function headingAnchor(heading: string): string {
  return heading
    .toLowerCase()
    .replaceAll(/[^\p{L}\p{N}\s_-]/gu, "")
    .replaceAll(/\s/g, "-");
}
