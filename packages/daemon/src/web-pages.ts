/**
 * Locates the built pages that the daemon serves: in the packages of a clone, or in the npm
 * package.
 */
import { createRequire } from "node:module";
import { dirname, extname, join } from "node:path";
import { fileURLToPath } from "node:url";

/** The dashboard at `/`, or the site at `/docs` and `/guide`. */
export function pagesDirectory(name: "dashboard" | "site"): string {
  const isClone = extname(import.meta.filename) === ".ts";
  if (isClone) return fileURLToPath(new URL(`../../${name}/dist`, import.meta.url));
  return join(dirname(createRequire(import.meta.url).resolve("sandkasten/package.json")), name);
}
