/** Tool names that every model provider accepts. */

const MAX_LENGTH = 64;

/** Letters, digits, `_` and `-` only, and not too long. */
export function toolName(prefix: string, name: string): string {
  return `${prefix}_${name.replaceAll(/[^A-Za-z0-9_-]/g, "_")}`.slice(0, MAX_LENGTH);
}
