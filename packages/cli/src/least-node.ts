/** The oldest supported Node version. Free of newer syntax, because older versions load it. */

/** Must match `engines` in the package. */
export const LEAST_NODE = "24.9";

export function isRecentNode(version: string): boolean {
  const [major = 0, minor = 0] = version.split(".").map(Number);
  const [leastMajor = 0, leastMinor = 0] = LEAST_NODE.split(".").map(Number);
  return major > leastMajor || (major === leastMajor && minor >= leastMinor);
}
