/** The headers of a forwarded request or response, without those of this one connection. */

/** A header with its value; the name is lower case. */
interface AddedHeader {
  readonly header: string;
  readonly value: string | undefined;
}

const HOP_BY_HOP = new Set([
  "connection",
  "keep-alive",
  "proxy-authenticate",
  "proxy-authorization",
  "proxy-connection",
  "te",
  "trailer",
  "upgrade",
]);

/**
 * SECURITY: a header of sandbox code with the name of a secret is replaced, also in a spelling that
 * some servers treat as the same, and `Connection` cannot remove the secret. Guarded
 * by secret-proxy.test.ts.
 */
export function requestHeaders(
  raw: readonly string[],
  secrets: readonly AddedHeader[],
  upgrade?: string,
): string[] {
  const replaced = new Set(secrets.map(({ header }) => comparable(header)));
  const kept = withoutHopByHop(raw).filter(([name]) => !replaced.has(comparable(name)));
  const added = secrets.flatMap(({ header, value }) =>
    value === undefined ? [] : [header, value],
  );
  const upgraded = upgrade === undefined ? [] : ["Connection", "Upgrade", "Upgrade", upgrade];
  return [...kept.flat(), ...added, ...upgraded];
}

export function responseHeaders(raw: readonly string[]): string[] {
  // The framing of the body is determined again.
  return withoutHopByHop(raw)
    .filter(([name]) => name.toLowerCase() !== "transfer-encoding")
    .flat();
}

function withoutHopByHop(raw: readonly string[]): (readonly [string, string])[] {
  const pairs: (readonly [string, string])[] = [];
  for (let at = 0; at + 1 < raw.length; at += 2) pairs.push([raw[at] ?? "", raw[at + 1] ?? ""]);
  return pairs.filter(([name]) => !HOP_BY_HOP.has(name.toLowerCase()));
}

/** Servers that pass headers as variables treat `-` and `_` the same. */
function comparable(name: string): string {
  return name.toLowerCase().replaceAll("_", "-");
}
