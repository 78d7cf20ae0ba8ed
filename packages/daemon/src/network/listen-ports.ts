/** Which of the ports that a policy allows a sandbox listens on, for programs that use no proxy. */

/** Listeners of one name; what a sandbox listens on, its own servers cannot have on all addresses. */
const MAX_PORTS = 32;

/** For rules that allow more ports than can be listened on. The proxy reaches all of them. */
const USUAL_PORTS = [80, 443, 22, 5432, 3306, 6379, 9418];

export function listenPorts(
  ranges: readonly { readonly first: number; readonly last: number }[],
): readonly number[] {
  const count = ranges.reduce((sum, { first, last }) => sum + last - first + 1, 0);
  const usual = USUAL_PORTS.filter((port) =>
    ranges.some(({ first, last }) => first <= port && port <= last),
  );
  if (count > MAX_PORTS && usual.length > 0) return usual;
  const ports: number[] = [];
  for (const { first, last } of ranges)
    for (let port = first; port <= last && ports.length < MAX_PORTS; port++) ports.push(port);
  return ports;
}
