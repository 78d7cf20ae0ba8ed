/** The order of the pages in the navigation. */
import { HOME, siteLink } from "./page.ts";
import type { Page } from "./page.ts";

export interface Group {
  readonly title: string;
  readonly pages: readonly Page[];
}

const GROUPS: readonly (readonly [string, RegExp])[] = [
  ["Start", /^README\.md$/],
  ["Guides", /^docs\/guides\/[^/]+$/],
  ["Agent frameworks", /^docs\/guides\/frameworks\//],
  ["Reference", /^docs\/reference\//],
  ["Design", /^docs\/(?:[^/]+|security\/.*)$/],
  ["Decisions", /^docs\/adr\//],
];

/** Every page in exactly one group: first in the order of the list at the end of the README, then by name. */
export function groupsOf(pages: readonly Page[]): readonly Group[] {
  const home = pages.find(({ source }) => source === HOME);
  const known = new Set(pages.map(({ source }) => source));
  const linked = [...(home?.markdown ?? "").matchAll(/\]\(([^)\s]+)\)/g)].map(([, link = ""]) =>
    home === undefined ? undefined : siteLink(link, home, known)?.split("#")[0],
  );
  const place = ({ address }: Page): number => {
    const index = linked.lastIndexOf(address);
    return index === -1 ? linked.length : index;
  };
  const ordered = pages.toSorted(
    (one, other) => place(one) - place(other) || (one.source < other.source ? -1 : 1),
  );
  const groups = GROUPS.map(([title, pattern]) => ({
    title,
    pages: ordered.filter(({ source }) => pattern.test(source)),
  }));
  const grouped = new Set(groups.flatMap((group) => group.pages));
  const others = ordered.filter((page) => !grouped.has(page));
  return [...groups, { title: "More", pages: others }].filter((group) => group.pages.length > 0);
}
