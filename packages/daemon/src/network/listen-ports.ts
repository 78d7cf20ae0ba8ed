/** The ports on which a sandbox listens for programs that use no proxy, of those that a policy allows. */

/** Listeners of one name; the sandbox's own servers cannot bind these ports on all addresses. */
const MAX_PORTS = 32;

/** For rules that allow too many ports to listen on. The proxy reaches all of them. */
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
