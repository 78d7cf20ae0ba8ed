/** Which part of a file a `Range` header asks for. */

/** From the front, with the last byte when it is given; or the last so many bytes. */
export type ByteRange =
  | { readonly first: number; readonly last?: number }
  | { readonly suffix: number };

/**
 * Undefined when all of the file is to be sent: without a range, with one that is no range, and with
 * several, which nobody has to serve.
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
