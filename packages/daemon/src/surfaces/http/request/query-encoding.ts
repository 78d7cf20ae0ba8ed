/** Checks a query's encoding before its values are used. */
import { SandboxError } from "@sandkasten/protocol";

const MAX_PARAMETERS = 100;

/**
 * Throws INVALID_REQUEST for a query whose escapes are not UTF-8: decoded leniently, `%FF` would
 * name another file than intended.
 */
export function checkQuery(url: string): void {
  const start = url.indexOf("?");
  if (start === -1) return;
  const parameters = url.slice(start + 1).split("&", MAX_PARAMETERS + 1);
  if (parameters.length > MAX_PARAMETERS)
    throw new SandboxError(
      "INVALID_REQUEST",
      `the query has more than ${MAX_PARAMETERS} parameters`,
    );
  for (const parameter of parameters) {
    if (!parameter.includes("%")) continue;
    try {
      decodeURIComponent(parameter);
    } catch (cause) {
      throw new SandboxError(
        "INVALID_REQUEST",
        `the query's parameter ${nameOf(parameter)} is not percent-encoded UTF-8; a path that is not UTF-8 goes into \`raw_path\`, as base64`,
        { cause },
      );
    }
  }
}

function nameOf(parameter: string): string {
  return JSON.stringify(parameter.split("=", 1)[0]?.slice(0, 64) ?? "");
}
