/** The oldest Node that Sandkasten runs on. Free of newer syntax, because older ones load it. */

/** As `engines` of the package says. */
export const LEAST_NODE = "24.9";

export function isRecentNode(version: string): boolean {
  const [major = 0, minor = 0] = version.split(".").map(Number);
  const [leastMajor = 0, leastMinor = 0] = LEAST_NODE.split(".").map(Number);
  return major > leastMajor || (major === leastMajor && minor >= leastMinor);
}
