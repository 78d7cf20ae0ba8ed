/** Host names in their canonical form. */
import { domainToASCII } from "node:url";

const MAX_NAME_LENGTH = 253;
const LABEL = /^[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?$/;
/** What a URL parser accepts as the last part of an IPv4 address: `1`, `0177`, `0x7f`. */
const NUMBER = /^(?:[0-9]+|0x[0-9a-f]*)$/;

/**
 * Lower case, ASCII, without the final dot. Undefined for anything that is not a host name.
 *
 * SECURITY: two spellings of one name must not get different verdicts, and an address in disguise
 * (`2130706433`, `0x7f.1`, `0177.0.0.1`, full-width digits) is not a name. Guarded by
 * host-names.test.ts.
 */
export function normalizeHostName(text: string): string | undefined {
  // A wildcard, a port, a percent sign or a NUL would be cut off or decoded below.
  if (text.length > MAX_NAME_LENGTH * 4 || !/^[\w.\-\u0080-\uffff]+$/u.test(text)) return undefined;
  const ascii = isAscii(text) ? text.toLowerCase() : domainToASCII(text);
  const name = ascii.endsWith(".") ? ascii.slice(0, -1) : ascii;
  if (name.length === 0 || name.length > MAX_NAME_LENGTH) return undefined;
  const labels = name.split(".");
  if (!labels.every((label) => LABEL.test(label))) return undefined;
  return NUMBER.test(labels.at(-1) ?? "") ? undefined : name;
}

function isAscii(text: string): boolean {
  return Buffer.byteLength(text) === text.length;
}
