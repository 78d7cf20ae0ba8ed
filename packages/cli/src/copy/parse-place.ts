/** Distinguishes a path in a session from a local one. */

export type Place =
  | { readonly kind: "session"; readonly session: string; readonly path: string }
  | { readonly kind: "local"; readonly path: string }
  | { readonly kind: "stdio" };

/** `SESSION:path`, `-`, or a local path; write a local path with a colon in its first part as `./a:b`. */
export function parsePlace(text: string): Place {
  if (text === "-") return { kind: "stdio" };
  const match = /^([A-Za-z0-9_-]{1,128}):(.*)$/s.exec(text);
  if (match === null) return { kind: "local", path: text };
  const path = match[2] ?? "";
  return { kind: "session", session: match[1] ?? "", path: path === "" ? "/workspace" : path };
}
