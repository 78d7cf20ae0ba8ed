/**
 * Locates the runner and the launcher: in `native/bin` of a clone, or in the platform's npm
 * package.
 */
import { createRequire } from "node:module";
import { dirname, extname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { SandboxError } from "@sandkasten/protocol";

/** @throws SandboxError if this is an installed package without the programs for this platform. */
export function nativeDirectory(): string {
  const isClone = extname(import.meta.filename) === ".ts";
  return isClone
    ? fileURLToPath(new URL("../../../native/bin", import.meta.url))
    : packagedDirectory(`@sandkasten/native-${process.platform}-${process.arch}`);
}

function packagedDirectory(name: string): string {
  try {
    const manifest = createRequire(import.meta.url).resolve(`${name}/package.json`);
    return join(dirname(manifest), "bin");
  } catch (cause) {
    throw new SandboxError(
      "UNSUPPORTED",
      `The package ${name} is not installed; install it beside \`sandkasten\`, without \`--omit=optional\``,
      { cause },
    );
  }
}
