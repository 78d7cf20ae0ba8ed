/** Checks an agent's requests against the administrator's policy. */
import type { SandboxPolicy } from "./policy.ts";
import type { SandboxSettings } from "./settings/parse-settings.ts";
import { canonicalImage } from "./settings/runtimes.ts";
import { ToolError } from "./tool-error.ts";

/**
 * SECURITY: a network requires both the agent's request and the administrator's permission (V1-61).
 * Guarded by what-is-allowed.test.ts.
 */
export function mayUseNetwork(settings: SandboxSettings, policy: SandboxPolicy): boolean {
  return settings.network && policy.allowNetwork;
}

/** SECURITY: a non-empty list is binding (V1-67). Guarded by what-is-allowed.test.ts. */
export function checkImage(image: string, { allowedImages }: SandboxPolicy): void {
  if (allowedImages.length === 0) return;
  const names = new Set([image, canonicalImage(image)]);
  const isAllowed = allowedImages.some((entry) => {
    const pattern = patternOf(entry);
    return [...names].some((name) => pattern.test(name)) || names.has(canonicalImage(entry));
  });
  if (isAllowed) return;
  throw new ToolError(
    "REFUSED",
    `The image ${image} is not allowed here. Allowed images: ${allowedImages.join(", ")}.`,
  );
}

/** `*` matches any characters except `/`, `**` matches any characters. */
function patternOf(entry: string): RegExp {
  const source = entry
    .split(/(\*+)/)
    .map((part) => {
      if (part.startsWith("*")) return part.length > 1 ? ".*" : "[^/]*";
      return part.replace(/[.*+?^${}()|[\]\\/-]/g, "\\$&");
    })
    .join("");
  return new RegExp(`^${source}$`);
}

/** Says who must allow a network before packages can be installed. */
export function checkPackages(settings: SandboxSettings, policy: SandboxPolicy): void {
  const names = [
    ...(settings.pipPackages.length > 0 ? ["pip_packages"] : []),
    ...(settings.npmPackages.length > 0 ? ["npm_packages"] : []),
  ].join(" and ");
  if (names === "") return;
  const instead = "Or use an `image` that has the packages.";
  if (!settings.network)
    throw new ToolError(
      "REFUSED",
      `${names} need a network, and this agent does not ask for one. Its author must set \`network: {enabled: true}\` in the agent's \`sandbox\` block. ${instead}`,
    );
  if (!policy.allowNetwork)
    throw new ToolError(
      "REFUSED",
      `${names} need a network, and the administrator does not allow one. The administrator must set SANDKASTEN_AGENTS_SANDBOX_ALLOW_NETWORK=true. ${instead}`,
    );
}
