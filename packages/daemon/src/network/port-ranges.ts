/** Sets of TCP ports. */

export interface PortRange {
  readonly first: number;
  readonly last: number;
}

const MAX_PORT = 65_535;

/** The meaning of a rule without ports: the web. */
export const WEB_PORTS: readonly PortRange[] = [
  { first: 80, last: 80 },
  { first: 443, last: 443 },
];
export const ALL_PORTS: readonly PortRange[] = [{ first: 1, last: MAX_PORT }];

/** `443`, `80,443`, `8000-8100` or `*`. Undefined for anything else. */
export function parsePorts(text: string): readonly PortRange[] | undefined {
  if (text === "*") return ALL_PORTS;
  const ranges: PortRange[] = [];
  for (const part of text.split(",")) {
    const [, from, to] = /^(\d{1,5})(?:-(\d{1,5}))?$/.exec(part) ?? [];
    const first = Number(from);
    const last = to === undefined ? first : Number(to);
    if (!(first >= 1 && first <= last && last <= MAX_PORT)) return undefined;
    ranges.push({ first, last });
  }
  return joined(ranges);
}

/** In the form that `parsePorts` accepts. */
export function formatPorts(ranges: readonly PortRange[]): string {
  if (coversPorts(ranges, ALL_PORTS)) return "*";
  return ranges
    .map(({ first, last }) => (first === last ? `${first}` : `${first}-${last}`))
    .join(",");
}

export function hasPort(ranges: readonly PortRange[], port: number): boolean {
  return ranges.some(({ first, last }) => first <= port && port <= last);
}

/** Whether all ports of `inner` are in `outer`, which is merged. */
export function coversPorts(outer: readonly PortRange[], inner: readonly PortRange[]): boolean {
  return inner.every(({ first, last }) =>
    outer.some((range) => range.first <= first && last <= range.last),
  );
}

/** The same ports in order, in as few ranges as possible. */
export function joined(ranges: readonly PortRange[]): readonly PortRange[] {
  const result: PortRange[] = [];
  for (const range of ranges.toSorted((a, b) => a.first - b.first)) {
    const before = result.at(-1);
    if (before !== undefined && range.first <= before.last + 1)
      result[result.length - 1] = {
        first: before.first,
        last: Math.max(before.last, range.last),
      };
    else result.push(range);
  }
  return result;
}

/** The ports that are in both. */
export function intersectPorts(
  one: readonly PortRange[],
  other: readonly PortRange[],
): readonly PortRange[] {
  return one.flatMap((a) =>
    other.flatMap((b) => {
      const [first, last] = [Math.max(a.first, b.first), Math.min(a.last, b.last)];
      return first <= last ? [{ first, last }] : [];
    }),
  );
}
