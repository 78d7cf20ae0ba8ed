/** Parses a `Range` header. */

/** From an offset, optionally to a last byte; or the last bytes. */
export type ByteRange =
  | { readonly first: number; readonly last?: number }
  | { readonly suffix: number };

/**
 * Undefined if the whole file is to be sent: without a range, for an invalid one, and for several
 * ranges, which need not be supported.
 */
export function parseRange(header: string | undefined): ByteRange | undefined {
  const match = /^bytes=(\d{0,15})-(\d{0,15})$/.exec(header?.trim() ?? "");
  if (match === null) return undefined;
  const [, from = "", to = ""] = match;
  if (from === "") return to === "" ? undefined : { suffix: Number(to) };
  const first = Number(from);
  if (to === "") return { first };
  return Number(to) < first ? undefined : { first, last: Number(to) };
}
